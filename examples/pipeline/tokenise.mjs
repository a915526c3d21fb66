// Turns a text into token ids, has them embedded, and for 30 % of the texts the result ranked.
import { call, serve } from './serve.mjs'

const [port, embedUrl, rankUrl] = process.argv.slice(2)

const hash = (text) => [...text].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) >>> 0, 7)

serve(port, '/search', async ({ text }) => {
  const ids = text.toLowerCase().split(/\s+/).map((word) => hash(word) % 1024)
  const { embedding } = await call(embedUrl, '/embed', { ids })
  if (hash(text) % 10 >= 3) return { found: Math.round(1000 * embedding[0]) }
  const { best } = await call(rankUrl, '/rank', { embedding })
  return { found: best }
})
