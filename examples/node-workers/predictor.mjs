// A text embedder behind plain Node: worker threads that take requests in batches from one queue.
// No dependencies. Its knobs come in each of the three ways a server may have them: --threads
// (argument), MAX_BATCH (environment), queueLimit (configuration file).
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'

const [inputs, hidden, outputs] = [256, 1024, 64]

if (isMainThread) serve()
else embedWhatComes()

function serve() {
  const { port, threads, config } = parseArgs({
    options: { port: { type: 'string' }, threads: { type: 'string' }, config: { type: 'string' } },
  }).values
  const { queueLimit } = JSON.parse(readFileSync(config, 'utf8'))
  const maxBatch = Number(process.env.MAX_BATCH)
  const queue = []
  const free = []
  let ready = 0

  const dispatch = () => {
    while (free.length > 0 && queue.length > 0) {
      const worker = free.pop()
      worker.batch = queue.splice(0, maxBatch)
      worker.postMessage(worker.batch.map(({ text }) => text))
    }
  }
  for (let n = 0; n < Number(threads); n++) {
    const worker = new Worker(new URL(import.meta.url))
    worker.on('message', (embeddings) => {
      if (embeddings === 'ready') ready++
      else worker.batch.forEach(({ response }, k) => send(response, 200, { embedding: embeddings[k], batch: worker.batch.length }))
      free.push(worker)
      dispatch()
    })
  }

  createServer(async (request, response) => {
    if (request.url === '/healthz') {
      return send(response, ready === Number(threads) ? 200 : 503, { threads: ready, maxBatch, queueLimit })
    }
    let body = ''
    for await (const chunk of request) body += chunk
    const text = textOf(body)
    if (request.url !== '/embed') send(response, 404, { error: 'POST /embed' })
    else if (text === undefined) send(response, 400, { error: 'send {"text": "..."}' })
    else if (queue.length >= queueLimit) send(response, 503, { error: 'the queue is full' })
    else {
      queue.push({ text, response })
      dispatch()
    }
  }).listen(Number(port), '127.0.0.1')
}

function send(response, status, answer) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
}

function textOf(body) {
  try {
    const { text } = JSON.parse(body)
    return typeof text === 'string' ? text : undefined
  } catch {
    return undefined
  }
}

/** Hashed words through two dense layers with seeded weights. */
function embedWhatComes() {
  let state = 7
  const random = () => {
    state = (state * 1664525 + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  }
  const layer = (from, to) => Float32Array.from({ length: from * to }, () => random() / Math.sqrt(from))
  const first = layer(inputs, hidden)
  const second = layer(hidden, outputs)
  const dense = (weights, x, to) =>
    Float32Array.from({ length: to }, (_, row) => {
      let sum = 0
      for (let k = 0; k < x.length; k++) sum += weights[row * x.length + k] * x[k]
      return Math.max(0, sum)
    })
  const embed = (text) => {
    const counts = new Float32Array(inputs)
    for (const word of text.toLowerCase().split(/\s+/)) counts[[...word].reduce((hash, c) => (hash * 31 + c.charCodeAt(0)) % inputs, 0)]++
    return [...dense(second, dense(first, counts, hidden), outputs)]
  }
  parentPort.on('message', (texts) => parentPort.postMessage(texts.map(embed)))
  parentPort.postMessage('ready')
}
