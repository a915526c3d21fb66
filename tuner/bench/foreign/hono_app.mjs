import { serve } from '@hono/node-server'
import { Hono } from 'hono'

const app = new Hono()
app.get('/healthz', (context) => context.json({ ok: true }))
app.post('/api/predict', async (context) => {
  const { features } = await context.req.json().catch(() => ({}))
  if (Array.isArray(features) && features.length === 4) return context.json({ prediction: features.reduce((sum, each) => sum + each, 0) })
  return context.json({ error: { issues: [{ path: ['features'], message: 'expected an array of 4 numbers' }] } }, 400)
})
serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(process.env.PORT) })
