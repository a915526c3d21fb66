/** Runs one engine in a separate process or thread, one batch at a time. */
import { parentPort } from 'node:worker_threads'
import { type Engine, listLargeBuffers, OutOfMemoryError } from '../engine.ts'
import type { FromEngine, ToEngine } from './engine-messages.ts'
import { engines } from './engine-registry.ts'

const port = parentPort
const send = (message: FromEngine) => {
  if (port)
    port.postMessage(message, message.type === 'result' ? listLargeBuffers(message.outputs) : [])
  else process.send?.(message)
}

let engine: Engine | undefined
let last: Promise<void> = Promise.resolve()

const receive = (message: ToEngine) => {
  last = last
    .then(() => handle(message))
    .catch((error: unknown) => {
      send({
        type: 'error',
        ...(message.type === 'infer' && { call: message.call }),
        message: error instanceof Error ? error.message : String(error),
        outOfMemory: error instanceof OutOfMemoryError,
      })
    })
}

async function handle(message: ToEngine): Promise<void> {
  switch (message.type) {
    case 'load': {
      const { createEngine } = await engines[message.engine].load()
      await engine?.close()
      engine = createEngine(message.options)
      const info = await engine.load()
      const { name, provenance, device } = engine
      send({ type: 'loaded', loaded: { name, provenance, device, info } })
      return
    }
    case 'infer': {
      if (!engine) throw new Error('infer before load')
      const outputs = await engine.infer(message.inputs, message.sentAtMs)
      send({ type: 'result', call: message.call, outputs, utilization: engine.utilization?.() })
      return
    }
    case 'close':
      await engine?.close()
      send({ type: 'closed' })
      if (port) port.close()
      else process.disconnect()
  }
}

if (port) port.on('message', receive)
else {
  process.on('message', receive)
  // The predictor has ended in any way: end too.
  process.on('disconnect', () => process.exit(0))
  // Ignore signals to the whole group: the predictor drains through this engine, then closes it.
  process.on('SIGINT', () => undefined)
  process.on('SIGTERM', () => undefined)
}
