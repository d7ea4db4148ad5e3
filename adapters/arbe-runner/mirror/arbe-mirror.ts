// An extension of pi that posts a session to its thread while it is written: every entry as pi keeps it, its header too, and live pieces of
// what the model says. Nothing here may disturb pi: no handler throws, and none waits for the network but the last, which waits 10 s at most,
// and one for tools that need leave (ARBE_PERMISSIONS), which waits until the runner tells what somebody answered on the thread.
//
// It speaks to the runner's socket (ARBE_STREAM_SOCKET), which knows the token, or without one to the stream itself (ARBE_STREAM_URL and
// ARBE_STREAM_TOKEN). Without a run (ARBE_RUN_ID) there are no heartbeats: those are a run's. A retry cannot double an entry: its idempotency
// key is `<thread>:<entry id>`, `<thread>:session` for the header.
import * as http from "node:http";
import * as https from "node:https";

type Fields = Record<string, any>;
type Post = { body: string; key?: string };

const HEARTBEAT_MS = 5_000;
const COALESCE_MS = 100;
const FLUSH_MS = 10_000;
const ATTEMPT_MS = 15_000;
const LONGEST_PAUSE_MS = 5_000;
const ASK_AGAIN_MS = 1_000;

export default function (pi: any) {
	const { ARBE_THREAD_ID: thread, ARBE_RUN_ID: run, ARBE_STREAM_SOCKET: socket } = process.env;
	const { ARBE_STREAM_URL: url, ARBE_STREAM_TOKEN: token } = process.env;
	// Tools inherit what is left here.
	delete process.env.ARBE_STREAM_TOKEN;
	if (!thread || !(socket || (url && token))) {
		const missing = Object.entries({ ARBE_THREAD_ID: thread, ARBE_STREAM_URL: socket || url, ARBE_STREAM_TOKEN: socket || token });
		complain(`nothing is told to a thread, for want of ${missing.filter(([, value]) => !value).map(([name]) => name).join(", ")}`);
		return;
	}

	const stream = streamUrl(url, thread);
	const agent = new (stream?.protocol === "https:" && !socket ? https : http).Agent({ keepAlive: true, maxSockets: 1 });
	let next = Number(process.env.ARBE_PI_MIRROR_NEXT_INDEX ?? 0);
	let closing = 0;
	let failing = false;

	/** Fails if no answer came. */
	function send({ body, key }: Post): Promise<{ status: number; code?: string }> {
		return new Promise((resolve, reject) => {
			const headers: Fields = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
			if (key) headers["idempotency-key"] = key;
			if (!socket) headers.authorization = `Bearer ${token}`;
			const to = socket
				? { socketPath: socket, path: "/entries" }
				: { hostname: stream!.hostname, port: stream!.port, path: stream!.pathname };
			const client = stream?.protocol === "https:" && !socket ? https : http;
			const request = client.request({ ...to, method: "POST", headers, agent, timeout: ATTEMPT_MS }, (reply) => {
				let text = "";
				reply.setEncoding("utf8");
				reply.on("data", (data: string) => (text += data));
				reply.on("error", reject);
				reply.on("end", () => resolve({ status: reply.statusCode ?? 0, code: codeOf(text) }));
			});
			request.on("timeout", () => request.destroy(new Error("no answer")));
			request.on("error", reject);
			request.end(body);
		});
	}

	// Entries leave one after the other, in the order of the session. One that is not taken holds up the rest.
	const queue: Post[] = [];
	let working = false;
	let idle: (() => void)[] = [];

	async function work() {
		if (working) return;
		working = true;
		let pause = 200;
		while (queue.length > 0 && (closing === 0 || Date.now() < closing)) {
			const { status, code } = await send(queue[0]).catch(() => ({ status: 0, code: undefined }));
			if (isSettled(status, code)) {
				queue.shift();
				pause = 200;
				if (failing) complain("the stream is reached again");
				failing = false;
				continue;
			}
			if (!failing) complain(`the stream is not reached (${status || "no answer"}); entries wait`);
			failing = true;
			await new Promise((wake) => setTimeout(wake, pause));
			pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
		}
		working = false;
		idle.forEach((wake) => wake());
		idle = [];
	}

	function complain(what: string) {
		process.stderr.write(`arbe-mirror: ${what}\n`);
	}

	function post(type: string, payload: unknown, key?: string) {
		queue.push({ body: JSON.stringify({ type, payload }), key });
		void work();
	}

	function drain(ctx: any) {
		const session = ctx.sessionManager;
		const lines: Fields[] = [session.getHeader(), ...session.getEntries()].filter(Boolean);
		for (; next < lines.length; next++) {
			const line = lines[next];
			post(kindOf(line), line, `${thread}:${line.type === "session" ? "session" : line.id}`);
		}
	}

	// Live pieces: gathered for a while, and for longer when the stream is slow. One that fails is not tried again; the entry follows.
	let pieces: { of: number; n: number; part: string; index: number; delta: string }[] = [];
	let sequence = 0;
	let sending = false;
	let gathering: ReturnType<typeof setTimeout> | undefined;

	function piece(message: Fields, part: string, index: number, delta: string) {
		const last = pieces.at(-1);
		if (last && last.of === message.timestamp && last.part === part && last.index === index) last.delta += delta;
		else pieces.push({ of: message.timestamp, n: sequence++, part, index, delta });
		gathering ??= setTimeout(release, COALESCE_MS);
	}

	function release() {
		gathering = undefined;
		if (pieces.length === 0) return;
		if (queue.length > 0 || failing || sending) {
			gathering = setTimeout(release, COALESCE_MS);
			return;
		}
		const entries = pieces.map((payload) => ({ type: "pi.chunk", payload: { run_id: run || undefined, ...payload } }));
		pieces = [];
		sending = true;
		void send({ body: JSON.stringify(entries) })
			.catch(() => undefined)
			.finally(() => (sending = false));
	}

	/** What was not sent of a message is of no use once its entry is. */
	function forget() {
		pieces = [];
	}

	// Tools that need leave. Whoever cannot be asked has not allowed it.
	const asks = toolsThatNeedLeave(process.env.ARBE_PERMISSIONS);
	let questions = 0;

	async function leave(event: any, signal?: AbortSignal): Promise<{ block: true; reason: string } | undefined> {
		if (!asks.includes("*") && !asks.includes(event.toolName)) return undefined;
		const no = (why: string) => ({ block: true as const, reason: `${event.toolName} was not used: ${why}` });
		if (!socket) return no("nobody can be asked whether it may be");
		const body = JSON.stringify({ n: ++questions, call: event.toolCallId, tool: event.toolName, input: event.input ?? {} });
		while (!signal?.aborted) {
			const answer = await question(body, signal).catch(() => undefined);
			if (answer?.allowed === true) return undefined;
			if (answer) return no(answer.reason ?? "it was not allowed");
			if (signal?.aborted) break;
			await new Promise((wake) => setTimeout(wake, ASK_AGAIN_MS));
		}
		return no("the run was cancelled");
	}

	/** On a connection of its own, for as long as it takes. Fails if no answer came. */
	function question(body: string, signal?: AbortSignal): Promise<{ allowed?: boolean; reason?: string }> {
		return new Promise((resolve, reject) => {
			const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
			const to = { socketPath: socket, path: "/permissions", method: "POST", headers, agent: false, signal };
			const request = http.request(to as http.RequestOptions, (reply) => {
				let text = "";
				reply.setEncoding("utf8");
				reply.on("data", (data: string) => (text += data));
				reply.on("error", reject);
				reply.on("end", () => resolve(reply.statusCode === 200 ? answerOf(text) : { reason: `the runner answers ${reply.statusCode}` }));
			});
			request.on("error", reject);
			request.end(body);
		});
	}

	const PARTS: Record<string, string> = { text_delta: "text", thinking_delta: "thinking", toolcall_delta: "tool_call" };
	let beat: ReturnType<typeof setInterval> | undefined;

	function on(name: string, handle: (event: any, ctx: any) => void | Promise<void>) {
		pi.on(name, async (event: any, ctx: any) => {
			try {
				await handle(event, ctx);
			} catch (error) {
				complain(`${name}: ${error}`);
			}
		});
	}

	on("session_start", (_event, ctx) => {
		drain(ctx);
		beat ??= setInterval(() => {
			if (run && queue.length === 0) post("signal.dispatch.heartbeat", { run_id: run });
		}, HEARTBEAT_MS);
		beat.unref?.();
	});
	on("message_update", (event) => {
		const update = event.assistantMessageEvent;
		const part = PARTS[update?.type];
		if (part && update.delta) piece(event.message, part, update.contentIndex ?? 0, update.delta);
	});
	// pi keeps a message only after it told its end, so it is looked for again at every later step.
	on("message_end", (event, ctx) => {
		if (event.message?.role === "assistant") forget();
		drain(ctx);
	});
	for (const name of ["message_start", "tool_call", "tool_execution_start", "turn_end", "agent_end", "model_select", "session_compact", "session_tree"])
		on(name, (_event, ctx) => drain(ctx));
	// If this one should throw, pi does not use the tool, and that is right.
	pi.on("tool_call", (event: any, ctx: any) => leave(event, ctx.signal));
	on("session_shutdown", async (_event, ctx) => {
		clearInterval(beat);
		clearTimeout(gathering);
		drain(ctx);
		closing = Date.now() + FLUSH_MS;
		const flushed = new Promise<void>((wake) => (working ? idle.push(wake) : wake()));
		let bound: ReturnType<typeof setTimeout> | undefined;
		await Promise.race([flushed, new Promise((wake) => (bound = setTimeout(wake, FLUSH_MS)))]);
		clearTimeout(bound);
		if (queue.length > 0) complain(`${queue.length} entries did not reach the stream`);
		agent.destroy();
	});
}

/** It stands on the thread, or never will: that is left to the runner, which looks at the end. */
function isSettled(status: number, code: string | undefined): boolean {
	if (status >= 200 && status < 300) return true;
	if (status === 409) return code !== "conflict";
	return status >= 400 && status < 500 && ![401, 403, 408, 425, 429].includes(status);
}

/** All, if what is said of them is not understood. */
function toolsThatNeedLeave(permissions: string | undefined): string[] {
	try {
		const { ask } = JSON.parse(permissions || '{"ask":[]}');
		return Array.isArray(ask) ? ask : ["*"];
	} catch {
		return ["*"];
	}
}

function answerOf(text: string): { allowed?: boolean; reason?: string } {
	try {
		return JSON.parse(text) ?? {};
	} catch {
		return { reason: "the runner's answer is not understood" };
	}
}

function codeOf(text: string): string | undefined {
	try {
		return JSON.parse(text).error?.code;
	} catch {
		return undefined;
	}
}

function streamUrl(url: string | undefined, thread: string): URL | undefined {
	if (!url) return undefined;
	const name = `arbe-thread-${thread}`;
	const base = url.replace(/\/+$/, "");
	return new URL(base.endsWith(name) ? base : `${base.replace(/\/api\/stream$/, "")}/api/stream/${name}`);
}

function kindOf(line: Fields): string {
	if (line.type === "compaction") return "pi.compaction";
	if (line.type !== "message") return "pi.entry";
	return { assistant: "pi.assistant", toolResult: "pi.tool_result" }[line.message?.role as string] ?? "pi.entry";
}
