// Finds the best of 5,000 documents for an embedding.
import { serve } from './serve.mjs'

const [port] = process.argv.slice(2)
const [documents, dimensions] = [5_000, 32]
const index = Float32Array.from({ length: documents * dimensions }, (_, i) => Math.sin(i))

serve(port, '/rank', ({ embedding }) => {
  let best = 0
  let bestScore = Number.NEGATIVE_INFINITY
  for (let document = 0; document < documents; document++) {
    let score = 0
    for (let k = 0; k < embedding.length; k++) score += embedding[k] * index[document * dimensions + k]
    if (score > bestScore) [best, bestScore] = [document, score]
  }
  return { best }
})
