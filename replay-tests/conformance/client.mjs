// node client.mjs BASE_URL: the official TypeScript client does what an application would.
import assert from "node:assert/strict"
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const MESSAGES = 1_000
const url = `${process.argv[2]}/v1/stream/typescript-${Date.now()}`
const handle = await DurableStream.create({ url, contentType: "application/json" })

const producer = new IdempotentProducer(handle, "producer", { autoClaim: true })
for (let i = 0; i < MESSAGES; i++) producer.append(JSON.stringify({ i }))
await producer.flush()

const read = await (await stream({ url, offset: "-1", live: false })).json()
assert.deepEqual(read, Array.from({ length: MESSAGES }, (_, i) => ({ i })))

for (const live of ["long-poll", "sse"]) {
  const tail = await stream({ url, offset: "now", live })
  const received = new Promise((resolve) => {
    const unsubscribe = tail.subscribeJson(async ({ items }) => {
      if (items.length === 0) return
      unsubscribe()
      tail.cancel()
      resolve(items)
    })
  })
  await handle.append(JSON.stringify({ live }))
  assert.deepEqual(await received, [{ live }])
}

const followed = []
const follower = await stream({ url, offset: "-1", live: "sse" })
const followedToTheEnd = new Promise((resolve) => {
  follower.subscribeJson(async ({ items, streamClosed }) => {
    followed.push(...items)
    if (streamClosed) resolve()
  })
})
await producer.close(JSON.stringify({ last: true }))
await followedToTheEnd
assert.equal(followed.length, MESSAGES + 3)
assert.deepEqual(followed.at(-1), { last: true })

assert.equal((await handle.head()).streamClosed, true)
await assert.rejects(handle.append(JSON.stringify({ late: true })))
await handle.delete()
assert.equal((await handle.head().catch(() => ({ exists: false }))).exists, false)
console.log(`${MESSAGES} messages written, read, tailed and closed`)
process.exit(0)
