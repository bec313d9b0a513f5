// Keeps what was loaded once, so that the site opens without a network.

const KEPT = "gambrel-VERSION";
const FIRST = ["FILES"];

self.addEventListener("install", (event) => event.waitUntil(caches.open(KEPT).then((kept) => kept.addAll(FIRST)).then(() => self.skipWaiting())));
self.addEventListener("activate", (event) =>
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((n) => n !== KEPT).map((n) => caches.delete(n))))
      .then(() => self.clients.claim()),
  ),
);
self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  event.respondWith(
    caches.open(KEPT).then(async (kept) => {
      const known = await kept.match(event.request, { ignoreSearch: true });
      if (known) return known;
      const answer = await fetch(event.request).catch(() => absent(event.request));
      if (answer.status === 200) await kept.put(event.request, answer.clone());
      return answer;
    }),
  );
});

// A browser may learn late that it is offline: a stored answer that was not kept is empty then, and Python answers.
function absent(request) {
  return request.url.includes("/answers/") ? new Response(null, { status: 204 }) : Response.error();
}
