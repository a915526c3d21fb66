const express = require('express')

const app = express()
app.post('/classify', express.json(), ({ body: { text } }, response) => {
  if (typeof text !== 'string') response.status(422).json({ error: "'text' must be a text" })
  else response.json({ label: text.length % 2 ? 'positive' : 'negative', score: 0.5 })
})
app.get('/livez', (_, response) => response.json({}))
app.listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
