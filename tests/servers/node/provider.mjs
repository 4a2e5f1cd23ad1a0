// A certified OpenID provider on loopback, for tests: device code, PKCE, rotation, revocation.
// It prints one line when it answers. Its accounts are whatever name is typed into its login form.
import { Provider } from "oidc-provider";

const port = Number(process.env.PORT);
const seconds = Number(process.env.ACCESS_SECONDS || 3600);
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "silas-tests",
      application_type: "native",
      token_endpoint_auth_method: "none",
      grant_types: [
        "authorization_code",
        "refresh_token",
        "urn:ietf:params:oauth:grant-type:device_code",
      ],
      response_types: ["code"],
      redirect_uris: ["http://127.0.0.1/callback"],
    },
    {
      client_id: "resource",
      client_secret: "resource",
      grant_types: [],
      redirect_uris: [],
      response_types: [],
    },
  ],
  claims: { openid: ["sub"], email: ["email"] },
  scopes: ["openid", "offline_access", "email", "mail", "calendar"],
  features: {
    deviceFlow: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true, allowedPolicy: () => true },
    devInteractions: { enabled: true },
    // A sign-in that names a resource gets a token for it alone; one at /other gets a wrong one.
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: "tools",
        audience: resource.endsWith("/other") ? "https://bank.example.org/mcp" : resource,
        accessTokenFormat: "jwt",
      }),
      useGrantedResource: () => true,
    },
  },
  issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: true,
  pkce: { required: () => true },
  ttl: {
    AccessToken: seconds,
    DeviceCode: 600,
    RefreshToken: 90 * 86400,
    Grant: 90 * 86400,
    IdToken: 3600,
    Session: 3600,
    Interaction: 3600,
  },
  findAccount: async (_ctx, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, email: id }),
  }),
  cookies: { keys: ["tests"] },
});

provider.listen(port, "127.0.0.1", () => console.log("ready"));
