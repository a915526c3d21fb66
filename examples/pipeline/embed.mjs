// Embeds token ids, in batches: the weights are stored as bytes, and decoded once for each batch.
import { serve } from './serve.mjs'

const [port] = process.argv.slice(2)
const maxBatch = Number(process.env.MAX_BATCH)
const [vocabulary, dimensions] = [1024, 32]
const weights = Int8Array.from({ length: vocabulary * dimensions }, (_, i) => (i * 7919) % 251)

function embed(batch) {
  const decoded = new Float32Array(weights.length)
  for (let i = 0; i < weights.length; i++) decoded[i] = weights[i] / 127
  return batch.map((ids) => {
    const embedding = new Array(dimensions).fill(0)
    for (const id of ids)
      for (let k = 0; k < dimensions; k++)
        embedding[k] += decoded[(id % vocabulary) * dimensions + k] / ids.length
    return embedding
  })
}

const queue = []

function serveBatch() {
  const batch = queue.splice(0, maxBatch)
  const embeddings = embed(batch.map(({ ids }) => ids))
  batch.forEach(({ resolve }, i) => resolve({ embedding: embeddings[i] }))
  // Between two batches, requests that arrived meanwhile join the queue.
  if (queue.length > 0) setImmediate(serveBatch)
}

serve(port, '/embed', ({ ids }) =>
  new Promise((resolve) => {
    queue.push({ ids, resolve })
    if (queue.length === 1) setImmediate(serveBatch)
  }),
)
