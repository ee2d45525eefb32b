// Tells all stories one after the other; for runtimes other than Node, whose test runners differ.

import { stories } from "./stories.js";

let failed = 0;
for (const [name, story] of Object.entries(stories)) {
  try {
    await story();
  } catch (error) {
    failed += 1;
    console.error(`${name}:`, error);
  }
}
console.log(`${Object.keys(stories).length - failed} stories told, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
