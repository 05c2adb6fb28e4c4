/** The real server that the tests run against, and what may stand between it and a client. */

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { Client } from "../client.mjs";

/** A server without keys, and one with keys: {role: key}. */
export const URL_OPEN = required("REMORY_URL");
export const URL_KEYED = required("REMORY_KEYED_URL");
export const KEYS = JSON.parse(required("REMORY_KEYS"));

const SECONDS = 60;

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`these tests need $${name}; run them with: python -m pytest tests/js`);
  return value;
}

/** A name that no other test uses. */
export function unique(name = "test") {
  return `${name} ${randomUUID()}`;
}

/** A client with a session of its own. */
export function newClient(options = {}) {
  return new Client(URL_OPEN, { session: unique(), ...options });
}

export async function collect(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

export async function waitUntil(isTrue) {
  const deadline = performance.now() + SECONDS * 1000;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error("it did not become true in time");
    await sleep(20);
  }
}

/** A figure of the engine in /metrics. */
export async function figure(name) {
  const text = await (await fetch(`${URL_OPEN}/metrics`)).text();
  return Number(new RegExp(`^remory_engine_${name} (\\S+)$`, "m").exec(text)[1]);
}

export async function waitForRunning(count) {
  await waitUntil(async () => (await figure("requests_running")) === count);
}

/** A gateway that hands each request to `answer(request, response)`; its URL. It ends with the test. */
export async function startGateway(test, answer) {
  const gateway = http.createServer(answer);
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  test.after(() => {
    gateway.closeAllConnections();
    gateway.close();
  });
  return `http://127.0.0.1:${gateway.address().port}`;
}

/** What a server answers to the request that a gateway got. */
export async function forwarded(server, request) {
  const body = Buffer.concat(await collect(request));
  const names = ["content-type", "authorization"].filter((name) => name in request.headers);
  const headers = Object.fromEntries(names.map((name) => [name, request.headers[name]]));
  const { method, url } = request;
  return fetch(server + url, { method, headers, body: method === "GET" ? undefined : body });
}

/** A URL where nothing listens. */
export async function unansweredURL() {
  const reserved = net.createServer();
  reserved.listen(0, "127.0.0.1");
  await once(reserved, "listening");
  const { port } = reserved.address();
  reserved.close();
  await once(reserved, "close");
  return `http://127.0.0.1:${port}`;
}

/** A line to the server that gives the bytes of answers to `carry(bytes, socket)`; its URL. It ends with the test. */
export async function startLine(test, carry) {
  const { hostname, port } = new URL(URL_OPEN);
  const sockets = new Set();
  const line = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    near.pipe(far);
    far.on("data", (bytes) => carry(bytes, near));
    far.on("close", () => near.end());
    near.on("close", () => far.destroy());
  });
  line.listen(0, "127.0.0.1");
  await once(line, "listening");
  test.after(() => {
    for (const socket of sockets) socket.destroy();
    line.close();
  });
  return `http://127.0.0.1:${line.address().port}`;
}
