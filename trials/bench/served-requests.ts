/** Start-up, accuracy of the emulated device's time, throughput and CPU time of a request. */
import autocannon from 'autocannon'
import { isBuilt, startPredictor } from './started-predictor.ts'

const startEmulated = (...args: readonly string[]) =>
  startPredictor('--engine', 'emulated', '--gpu', 'T4', '--precision', 'fp16', ...args)

const value = (metrics: string, name: string) =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(metrics)?.[1])
const metricsOf = async (url: string) => (await fetch(`${url}/metrics`)).text()
const body = JSON.stringify({
  inputs: [
    {
      name: 'text',
      shape: [1],
      datatype: 'BYTES',
      data: ['the quick brown fox jumps over the lazy dog and runs away'],
    },
  ],
})
const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!

async function startUp(): Promise<void> {
  const times: number[] = []
  for (let i = 0; i < 5; i++) {
    const { startMs, stop } = await startEmulated('--model', 'bert')
    times.push(startMs)
    await stop()
  }
  console.log(
    `start to ready (${isBuilt ? 'build' : 'sources'}): median of 5 ${median(times).toFixed(0)} ms`,
  )
}

/** One request at a time: what a batch takes beyond the modelled time. */
async function accuracy(model: string): Promise<void> {
  const { url, stop } = await startEmulated('--model', model, '--max-delay-ms', '0')
  const late: number[] = []
  let [busy, compute] = [0, 0]
  for (let i = 0; i < 200; i++) {
    await (await fetch(`${url}/v2/models/${model}/infer`, { method: 'POST', body })).arrayBuffer()
    const metrics = await metricsOf(url)
    const [busyNow, computeNow] = [
      value(metrics, 'predictor_device_busy_seconds_total'),
      value(metrics, 'predictor_compute_seconds_sum'),
    ]
    late.push((computeNow - compute - (busyNow - busy)) * 1000)
    ;[busy, compute] = [busyNow, computeNow]
  }
  await stop()
  const modelled = (busy / 200) * 1000
  const at = (share: number) =>
    late.sort((a, b) => a - b)[Math.floor(share * late.length)]!.toFixed(2)
  console.log(
    `${model}: modelled ${modelled.toFixed(2)} ms; served later by p10 ${at(0.1)}, median ${at(0.5)}, p90 ${at(0.9)} ms`,
  )
}

async function throughput(connections: number, ...args: string[]): Promise<void> {
  const { url, stop } = await startEmulated('--model', 'bert-tiny', '--batch-size', '8', ...args)
  const load = (duration: number) =>
    autocannon({
      url: `${url}/v2/models/bert-tiny/infer`,
      method: 'POST',
      body,
      connections,
      duration,
      sampleInt: 100,
    })
  await load(3)
  const before = await metricsOf(url)
  const { requests, duration, latency, non2xx, errors } = await load(6)
  const after = await metricsOf(url)
  await stop()
  const grown = (name: string) => value(after, name) - value(before, name)
  const cpuUs = (grown('process_cpu_seconds_total') / requests.total) * 1e6
  const batch = grown('predictor_items_total') / grown('predictor_batches_total')
  console.log(
    `bert-tiny, batch 8, ${connections} connections ${args.join(' ')}: ${Math.round(requests.total / duration)} req/s, p50 ${latency.p50} ms, p99 ${latency.p99} ms, ` +
      `realised batch ${batch.toFixed(1)}, ${cpuUs.toFixed(0)} us of CPU a request, ${non2xx + errors} failed`,
  )
}

export async function printServedRequests(): Promise<void> {
  await startUp()
  await accuracy('bert-tiny')
  await accuracy('bert-base')
  await throughput(16)
  await throughput(64)
  await throughput(64, '--cpu-cores', '2')
}
