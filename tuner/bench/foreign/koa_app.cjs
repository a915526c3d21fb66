const { text } = require('node:stream/consumers')
const Koa = require('koa')

const app = new Koa()
app.use(async (context) => {
  if (context.path === '/ping') context.body = 'pong'
  if (context.path !== '/embed') return
  if (context.method !== 'POST') context.throw(405)
  const { input } = JSON.parse((await text(context.req)) || '{}')
  context.assert(typeof input === 'string', 400, 'input is missing')
  context.body = { embedding: [input.length, 0.5, 0.25] }
})
app.listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
