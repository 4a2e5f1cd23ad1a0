// The page's modules import each other by their address ("/dom.js"): here that is a file of silas/web/static.
const STATIC = new URL("../../../silas/web/static/", import.meta.url);

export function resolve(specifier, context, next) {
  if (!/^\/\w+\.js$/.test(specifier)) return next(specifier, context);
  return { url: new URL(`.${specifier}`, STATIC).href, format: "module", shortCircuit: true };
}
