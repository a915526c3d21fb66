import Fastify from 'fastify'

const app = Fastify()
const body = { type: 'object', required: ['inputs'], properties: { inputs: { type: 'string' } } }
app.post('/generate', { schema: { body } }, async ({ body: { inputs } }) => ({ summary: inputs.slice(0, 12), length: inputs.length }))
app.get('/readyz', async () => ({}))
await app.listen({ host: '127.0.0.1', port: Number(process.argv[process.argv.indexOf('--port') + 1]) })
