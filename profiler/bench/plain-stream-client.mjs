/**
 * A plain open-loop client of streamed answers to check the load generator by, which shares no code
 * with it. Reads requests from stdin, a JSON text a line: {"atMs": 12.5, "body": "..."}, sends each
 * as a POST at its time from the start, and prints when the first and the last token of its answer
 * came, in ms from that time, and how many there were: {"firstMs": 60.1, "lastMs": 180.3, "tokens":
 * 11}, in the order of sends; null for one that was not answered whole.
 *
 *   node plain-stream-client.mjs http://127.0.0.1:8000/v1/chat/completions < requests
 *
 * A token is a chunk with text. Each request has a connection of its own.
 */
import { request } from 'node:http'
import { text } from 'node:stream/consumers'

const url = process.argv[2]
const asked = (await text(process.stdin)).trim().split('\n').map((line) => JSON.parse(line))
// Time to open what is needed before the first send.
const startMs = performance.now() + 50

const answers = await Promise.all(
  asked.map(async ({ atMs, body }) => {
    const dueMs = startMs + atMs
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueMs - performance.now() - 1)))
    while (performance.now() < dueMs) await new Promise((resolve) => setImmediate(resolve))
    return send(body, dueMs).catch(() => null)
  }),
)
for (const answer of answers) console.log(JSON.stringify(answer))

/** Times of one answer; rejects where it is not whole. */
function send(body, dueMs) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const sent = request(url, { method: 'POST', headers, agent: false }, (response) => {
      let [firstMs, lastMs, tokens, rest, done] = [Number.NaN, Number.NaN, 0, '', false]
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        const nowMs = performance.now() - dueMs
        const lines = (rest + piece).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          if (!line.startsWith('data: ')) continue
          if (line === 'data: [DONE]') done = true
          else if (JSON.parse(line.slice(6)).choices[0]?.delta.content) {
            if (tokens++ === 0) firstMs = nowMs
            lastMs = nowMs
          }
        }
      })
      response.on('end', () => (done && response.statusCode === 200 ? resolve({ firstMs, lastMs, tokens }) : reject(new Error('not whole'))))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
