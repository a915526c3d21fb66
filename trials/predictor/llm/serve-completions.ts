/** Serves a language model: listens, exposes metrics, and drains. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Counter, Gauge, Registry } from 'prom-client'
import type { RunningPredictor } from '../running-predictor.ts'
import type { Settings } from '../settings.ts'
import type { CompletionEngine } from './completion-engine.ts'
import { createLlmServer } from './llm-http.ts'

/** A gauge of /metrics. Metrics that the tensor predictor also has keep their names. */
type EngineFigure = readonly [name: string, help: string, value: () => number]

/** @throws the error of listening, after closing the engine */
export async function serveCompletions<Prompt extends { readonly length: number }>(
  engine: CompletionEngine<Prompt>,
  settings: Settings,
  figures: readonly EngineFigure[],
): Promise<RunningPredictor> {
  const metrics = formatMetrics(settings.model, figures)
  const { server, drain } = createLlmServer(engine, {
    model: settings.model,
    maxBodyBytes: Math.round(settings.maxBodyMiB * 2 ** 20),
    requestTimeoutS: settings.requestTimeoutS,
    metrics: () => metrics.registry.metrics(),
    onAnswer: metrics.answered,
  })
  server.listen({ host: settings.host, port: settings.port, backlog: 4096 })
  try {
    await once(server, 'listening')
  } catch (error) {
    await engine.close()
    throw error
  }
  const { port } = server.address() as AddressInfo

  let stopped: Promise<void> | undefined
  const stop = async () => {
    drain()
    let limit: NodeJS.Timeout | undefined
    await Promise.race([
      engine.waitUntilIdle(),
      new Promise((resolve) => {
        limit = setTimeout(resolve, settings.drainTimeoutMs)
      }),
    ])
    clearTimeout(limit)
    await engine.close()
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeIdleConnections()
    const lastCall = setTimeout(() => server.closeAllConnections(), 500)
    await closed
    clearTimeout(lastCall)
  }
  return {
    url: `http://${settings.host.includes(':') ? `[${settings.host}]` : settings.host}:${port}`,
    port,
    model: settings.model,
    device: engine.device,
    provenance: engine.provenance,
    died: new Promise(() => {}),
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

function formatMetrics(model: string, engineFigures: readonly EngineFigure[]) {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Counter({
    name: 'predictor_requests_total',
    help: 'Requests answered, by HTTP status',
    labelNames: ['model', 'status'],
    registers,
  })
  const readyAt = performance.now()
  const figures: readonly EngineFigure[] = [
    ...engineFigures,
    ['predictor_ready_seconds', 'Time since ready', () => (performance.now() - readyAt) / 1000],
  ]
  for (const [name, help, value] of figures) {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value())
      },
    })
  }
  return { registry, answered: (status: number) => requests.inc({ model, status }) }
}
