// The stories under the test runner of Node.

import { test } from "node:test";

import { stories } from "./stories.js";

for (const [name, story] of Object.entries(stories)) test(name, story);
