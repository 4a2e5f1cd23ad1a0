// The offline shell: files of the page only. Nothing of a conversation or a card is ever kept here,
// and whatever the network has is newer than what is kept.
const SHELL = "__SHELL__"; // the server writes both: a name that changes with the files,
const FILES = "__FILES__".split(" "); // and the files

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(SHELL)
      .then((cache) => cache.addAll(FILES))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) =>
        Promise.all(names.filter((name) => name !== SHELL).map((name) => caches.delete(name))),
      )
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const ours = url.origin === self.location.origin && FILES.includes(url.pathname);
  if (event.request.method !== "GET" || !ours) return;
  event.respondWith(fresh(event.request, url.pathname));
});

async function fresh(request, path) {
  const cache = await caches.open(SHELL);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(path, answer.clone());
    return answer;
  } catch {
    return (await cache.match(path)) ?? Response.error();
  }
}
