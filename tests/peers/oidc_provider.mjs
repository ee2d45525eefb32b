// A second OpenID Connect provider on loopback for tests, written by other people than the first: npm's oidc-provider, which is
// certified. It tells the address of a person at its userinfo endpoint only, checks PKCE, and has its client registered at the start.
//
// The first line on stdout is JSON with its port. Make a person with PUT /users/{sub}, and sign in as one by posting `sub` as a form to
// the authorization address, as a browser would through the pages of sign-in and consent. It ends when stdin does.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const [modules, algorithm, clientId, clientSecret, redirectUri] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const { Provider } = await load("oidc-provider");
const { exportJWK, generateKeyPair } = await load("jose");

// It warns of settings that are meant for development.
console.info = console.warn = () => {};

const people = new Map();
const server = createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address();
const issuer = `http://127.0.0.1:${port}/realms/acme`;

const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: clientId,
      client_secret: clientSecret,
      redirect_uris: [redirectUri],
      id_token_signed_response_alg: algorithm,
      token_endpoint_auth_method: "client_secret_post",
    },
  ],
  clientAuthMethods: ["client_secret_post"],
  enabledJWA: { idTokenSigningAlgValues: [algorithm] },
  jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: algorithm, use: "sig", kid: "acme-1" }] },
  claims: { email: ["email", "email_verified"], profile: ["name"] },
  cookies: { keys: ["only for tests"] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, sub) => people.has(sub) && { accountId: sub, claims: () => ({ sub, ...people.get(sub) }) },
  // Whoever signs in has agreed to show what is asked for.
  loadExistingGrant: async (ctx) => {
    const { client, session } = ctx.oidc;
    const grant = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope("openid email profile");
    await grant.save();
    return grant;
  },
});
const app = provider.callback();

/** Walks from the authorization address to the page of sign-in, signs in, and ends where the browser would leave. */
async function agree(path, sub) {
  const cookies = new Map();
  let location = new URL(path, issuer);
  while (!location.href.startsWith(redirectUri)) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(location, { redirect: "manual", headers: { cookie, "x-sub": sub } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    const next = answer.headers.get("location");
    if (!next) throw new Error(`no way on: ${answer.status} ${await answer.text()}`);
    location = new URL(next, location);
  }
  return location.href;
}

async function respond(request, response) {
  const { method, url } = request;
  if (method === "PUT" && url.startsWith("/users/")) {
    people.set(url.slice("/users/".length), JSON.parse(await text(request)));
    response.writeHead(204).end();
  } else if (method === "POST" && url.startsWith("/realms/acme/auth?")) {
    const sub = new URLSearchParams(await text(request)).get("sub");
    response.writeHead(302, { location: await agree(url, sub) }).end();
  } else if (url.startsWith("/interaction/")) {
    await provider.interactionFinished(request, response, { login: { accountId: request.headers["x-sub"] } });
  } else if (url.startsWith("/realms/acme/")) {
    request.originalUrl = url;
    request.url = url.slice("/realms/acme".length);
    app(request, response);
  } else {
    response.writeHead(404).end();
  }
}

server.on("request", (request, response) => {
  respond(request, response).catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    response.writeHead(500).end(String(error));
  });
});
process.stdout.write(`${JSON.stringify({ port })}\n`);
process.stdin.on("end", () => process.exit()).resume();
