// A stage of the bench: node stage.mjs PORT WORK [URL:SHARE ...]. Answers POST / after so many
// thousand multiplications, and BATCH_WORK for each batch of at most MAX_BATCH requests; then it
// calls each URL for that share of its requests.
import { createServer } from 'node:http'

const [port, work, ...calls] = process.argv.slice(2)
const { BATCH_WORK: batchWork = '0', MAX_BATCH: maxBatch = '1' } = process.env
const called = calls.map((call) => {
  const [, url, share] = /^(.*):([^:]*)$/.exec(call)
  return { url, share: Number(share), due: 0 }
})

function compute(thousands) {
  let product = 1
  for (let i = 0; i < 1000 * thousands; i++) product = (product * 1.000001) % 2
  return product
}

const queue = []
function serveBatch() {
  const batch = queue.splice(0, Number(maxBatch))
  compute(Number(batchWork) + Number(work) * batch.length)
  for (const resolve of batch) resolve()
  if (queue.length > 0) setImmediate(serveBatch)
}
const joinBatch = () =>
  new Promise((resolve) => {
    queue.push(resolve)
    if (queue.length === 1) setImmediate(serveBatch)
  })

createServer(async (request, response) => {
  if (request.method === 'GET') return response.end('ready')
  for await (const _ of request);
  await joinBatch()
  for (const call of called) {
    call.due += call.share
    if (call.due < 1) continue
    call.due -= 1
    await (await fetch(call.url, { method: 'POST', body: '{}' })).text()
  }
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok": true}')
}).listen(Number(port), '127.0.0.1')
