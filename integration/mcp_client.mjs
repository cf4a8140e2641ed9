// A foreign MCP client in TypeScript's SDK: `node mcp_client.mjs SDK COMMAND...`
// It reads one call a line, {"name", "arguments"}, and prints one result a line; the tools first.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [sdk, command, ...args] = process.argv.slice(2);
const from = (path) => import(pathToFileURL(`${sdk}/dist/esm/client/${path}.js`).href);
const { Client } = await from("index");
const { StdioClientTransport } = await from("stdio");

const client = new Client({ name: "foreign", version: "1" });
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
say(await client.listTools());
for await (const line of createInterface({ input: process.stdin })) {
  try {
    say(await client.callTool(JSON.parse(line)));
  } catch (error) {
    say({ thrown: String(error) });
  }
}
await client.close();
