// Scenario of a user of queue tables, through tedious. scenario.py describes the variables.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Connection, Request, TYPES } from "tedious";

const SIZES = [300, 0, 100_000];
const given = (name) => process.env[`COMPAT_${name}`];
const say = (step, facts) => console.log(JSON.stringify({ step, ...facts }));

function open() {
  const encrypt = { plain: false, full: true, strict: "strict" }[given("MODE")];
  const options = { database: given("DATABASE"), port: Number(given("PORT")), encrypt, requestTimeout: 20_000 };
  if (given("MODE") === "strict") {
    options.cryptoCredentialsDetails = { ca: readFileSync(given("CERTIFICATE")) };
    options.serverName = "localhost";
    options.tdsVersion = "8_0";
  } else {
    options.trustServerCertificate = true;
  }
  const authentication = { type: "default", options: { userName: given("USER"), password: given("PASSWORD") } };
  const connection = new Connection({ server: given("HOST"), authentication, options });
  return new Promise((resolve, reject) =>
    connection.connect((error) => (error ? reject(error) : resolve(connection))),
  );
}

function request(connection, text, { method = "execSqlBatch", parameters = [], started = () => {} } = {}) {
  return new Promise((resolve, reject) => {
    const rows = [];
    const made = new Request(text, (error, count) => (error ? reject(error) : resolve({ rows, count })));
    for (const [name, type, value] of parameters) {
      made.addParameter(name, type, value);
    }
    made.on("row", (columns) => rows.push(columns.map((column) => column.value)));
    connection[method](made);
    started();
  });
}

const value = async (connection, text) => (await request(connection, text)).rows[0][0];

const transact = (connection, what) =>
  new Promise((resolve, reject) => connection[what]((error) => (error ? reject(error) : resolve())));

async function send(connection, number) {
  const body = Buffer.from(Array.from({ length: SIZES[number - 1] }, (_, index) => (index * 7 + number) % 256));
  const headers = JSON.stringify({ Number: String(number), Greeting: "Grüße Ω 😀" });
  const parameters = [
    ["Id", TYPES.UniqueIdentifier, `00000000-0000-0000-0000-${String(number).padStart(12, "0")}`],
    ["Ttbr", TYPES.Int, null],
    ["Headers", TYPES.NVarChar, headers],
    ["Body", TYPES.VarBinary, body],
  ];
  const { count } = await request(connection, given("SEND"), { method: "execSql", parameters });
  if (count !== 1) {
    throw new Error(`a send changes one row, not ${count}`);
  }
}

async function received(connection) {
  const { rows } = await request(connection, given("RECEIVE"));
  if (!rows.length) {
    return null;
  }
  const [id, , headers, body] = rows[0];
  return [id.toLowerCase(), createHash("sha256").update(headers, "utf8").update(body).digest("hex")];
}

async function receive(first, second) {
  await transact(first, "beginTransaction");
  await transact(second, "beginTransaction");
  const held = await received(first);
  const others = [await received(second), await received(second), await received(second)];
  await transact(first, "rollbackTransaction");
  const again = await received(second);
  await transact(second, "commitTransaction");
  say("receive", { held, others, again, left: await value(first, given("COUNT")) });
}

async function error(connection, text) {
  try {
    await request(connection, text);
    return 0;
  } catch (error) {
    return error.number;
  }
}

async function cancelled(connection, text) {
  const start = performance.now();
  try {
    await request(connection, text, { started: () => setTimeout(() => connection.cancel(), 500) });
    return null;
  } catch (error) {
    return error.code === "ECANCEL" ? (performance.now() - start) / 1000 : null;
  }
}

const [first, second] = [await open(), await open()];
say("client", { version: createRequire(import.meta.url)("tedious/package.json").version });
say("login", { connection: await value(first, given("CONNECTION")) });
await request(first, given("CREATE"));
await request(first, given("PREPARE"));
say("create", { tables: await value(first, given("TABLES")) });
for (let number = 1; number <= SIZES.length; number++) {
  await send(first, number);
}
say("send", { count: await value(first, given("COUNT")) });
await receive(first, second);
await transact(first, "beginTransaction");
await request(first, given("HOLD"));
const numbers = [];
for (const text of given("ERRORS").split("\n")) {
  numbers.push(await error(second, text));
}
say("errors", { numbers });
await request(second, "SET LOCK_TIMEOUT -1");
const waiting = await cancelled(second, given("WAIT"));
const blocked = await cancelled(second, given("BLOCKED"));
say("cancel", { waiting, blocked, after: await value(second, "SELECT 7") });
await transact(first, "rollbackTransaction");
await request(first, given("DROP"));
first.close();
second.close();
