// Programs that send a first event, complete as they stand: they sign their request with nothing but what comes with the language.

export interface Access {
  url: string;
  key: string;
  secret: string;
}

const BODY = `{"object_type": "user", "events": [{"type": "message", "content": "Pay me by gift card and I ship today"}]}`;

function curl({ url, key, secret }: Access): string {
  return `KEY=${key}
SECRET=${secret}
WHERE=/v1/objects/seller_7/events

b64() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
now=$(date +%s)
head=$(printf '{"alg":"HS256","typ":"JWT","kid":"%s"}' "$KEY" | b64)
claims=$(printf '{"iat":%d,"exp":%d,"htm":"POST","htu":"%s"}' "$now" $((now + 60)) "$WHERE" | b64)
signature=$(printf '%s.%s' "$head" "$claims" | openssl dgst -sha256 -hmac "$SECRET" -binary | b64)

curl -sS -X POST "${url}$WHERE" -H "Authorization: Bearer $head.$claims.$signature" \\
  -d '${BODY}'
`;
}

function python({ url, key, secret }: Access): string {
  return `import base64, hashlib, hmac, json, time, urllib.request

URL, KEY, SECRET = "${url}", "${key}", "${secret}"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def call(method, path, body):
    now = int(time.time())
    head = b64(json.dumps({"alg": "HS256", "typ": "JWT", "kid": KEY}).encode())
    claims = b64(json.dumps({"iat": now, "exp": now + 60, "htm": method, "htu": path}).encode())
    signature = b64(hmac.new(SECRET.encode(), head + b"." + claims, hashlib.sha256).digest())
    token = b".".join([head, claims, signature]).decode()
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Authorization": "Bearer " + token}, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


message = {"type": "message", "content": "Pay me by gift card and I ship today"}
print(call("POST", "/v1/objects/seller_7/events", {"object_type": "user", "events": [message]}))
`;
}

function typescript({ url, key, secret }: Access): string {
  return `import { createHmac } from "node:crypto";

const URL = "${url}", KEY = "${key}", SECRET = "${secret}";
const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

async function call(method: string, path: string, body: object): Promise<unknown> {
  const now = Math.floor(Date.now() / 1000);
  const head = b64({ alg: "HS256", typ: "JWT", kid: KEY });
  const claims = b64({ iat: now, exp: now + 60, htm: method, htu: path });
  const signature = createHmac("sha256", SECRET).update(\`\${head}.\${claims}\`).digest("base64url");
  const headers = { Authorization: \`Bearer \${head}.\${claims}.\${signature}\` };
  const response = await fetch(URL + path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const message = { type: "message", content: "Pay me by gift card and I ship today" };
console.log(await call("POST", "/v1/objects/seller_7/events", { object_type: "user", events: [message] }));
`;
}

/** The same first event in each language; the name of the file says how to run it. */
export const SNIPPETS = [
  { id: "curl", name: "curl", run: "bash first-event.sh", write: curl },
  { id: "python", name: "Python", run: "python3 first_event.py", write: python },
  { id: "typescript", name: "TypeScript", run: "npx tsx first-event.mts", write: typescript },
] as const;
