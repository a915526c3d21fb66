/** An ONNX graph behind Node's own HTTP server: rows of three numbers. */
import { createServer } from 'node:http'
import { InferenceSession, Tensor } from 'onnxruntime-node'

const session = await InferenceSession.create('model.onnx', { intraOpNumThreads: Number(process.env.THREADS ?? 1) })
createServer((request, response) => {
  const answer = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (request.url !== '/embed') return answer(404, { error: 'no such path' })
  if (request.method !== 'POST') return answer(405, { error: 'POST it' })
  let text = ''
  request.on('data', (chunk) => (text += chunk))
  request.on('end', async () => {
    try {
      const { rows } = JSON.parse(text)
      const outputs = await session.run({ [session.inputNames[0]]: new Tensor('float32', Float32Array.from(rows.flat()), [rows.length, 3]) })
      answer(200, { embedding: [...outputs[session.outputNames[0]].data] })
    } catch (error) {
      answer(400, { error: String(error.message) })
    }
  })
}).listen(Number(process.env.PORT), '127.0.0.1')
