// node create-container.mjs http://127.0.0.1:PORT/ACCOUNT KEY CONTAINER
// object_store cannot make containers, and Azurite brings no client that could.
import { createHmac } from "node:crypto"

const [endpoint, key, container] = process.argv.slice(2)
const url = new URL(`${endpoint}/${container}?restype=container`)
const account = new URL(endpoint).pathname.slice(1)
const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2021-12-02" }

const standardHeaders = "\n".repeat(11)
const msHeaders = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("")
const resource = `/${account}${url.pathname}\nrestype:container`
const signature = createHmac("sha256", Buffer.from(key, "base64"))
  .update(`PUT\n${standardHeaders}${msHeaders}${resource}`)
  .digest("base64")

const response = await fetch(url, {
  method: "PUT",
  headers: { ...headers, authorization: `SharedKey ${account}:${signature}` },
})
if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`)
