// Programs that send a first event and print the answers, complete as they stand once the client of the language is installed.

export interface Access {
  url: string;
  key: string;
  secret: string;
}

const MESSAGE = "Pay me by gift card and I ship today";

function commandLine({ url, key, secret }: Access): string {
  return `export AUSPEX_URL=${url}
export AUSPEX_KEY=${key}
export AUSPEX_SECRET=${secret}

auspex events send seller_7 --object-type user \\
  --message '${MESSAGE}'
auspex objects get seller_7 --wait
auspex api GET '/v1/objects?limit=5'
`;
}

function python({ url, key, secret }: Access): string {
  return `from auspex import Auspex

client = Auspex("${url}", "${key}", "${secret}")

message = {"type": "message", "content": "${MESSAGE}"}
sent = client.ingest_events("seller_7", object_type="user", events=[message])
found = client.wait_for_answers("seller_7", since=sent)
for answer in found.analysis:
    print(answer.key, answer.noul, answer.score, answer.choice)
`;
}

function typescript({ url, key, secret }: Access): string {
  return `import { Auspex } from "auspex";

const client = new Auspex({ baseUrl: "${url}", key: "${key}", secret: "${secret}" });

const message = { type: "message" as const, content: "${MESSAGE}" };
const sent = await client.ingestEvents("seller_7", { object_type: "user", events: [message] });
const found = await client.waitForAnswers("seller_7", { since: sent });
for (const answer of found.analysis) console.log(answer.key, answer.noul ?? answer.score ?? answer.choice);
`;
}

interface Snippet {
  id: string;
  name: string;
  /** What is done once before it runs. */
  before: string;
  /** The command for that, if there is one. */
  install?: string;
  /** How the saved program is run; a command line is pasted as it is. */
  run?: string;
  write: (access: Access) => string;
}

/** The same first event in each language. */
export const SNIPPETS: readonly Snippet[] = [
  { id: "command-line", name: "Command line", before: "The binary of the service is its command line, too. With it on your PATH (after make run: PATH=$PATH:$PWD/target/debug), paste this into a shell:", write: commandLine },
  { id: "python", name: "Python", before: "Install the client from the folder of the project, once:", install: "pip install ./clients/python", run: "python3 first_event.py", write: python },
  {
    id: "typescript",
    name: "TypeScript",
    before: "Install the client from the folder of the project, once:",
    install: "npm ci --prefix clients && npm pack ./clients/typescript && npm install ./auspex-0.1.0.tgz",
    run: "npx tsx first-event.mts",
    write: typescript,
  },
];
