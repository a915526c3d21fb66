/**
 * npm run bench:predictor. Start-up, accuracy of the emulated device's time, and throughput with
 * the CPU cost of a request, of the built predictor where there is a build, else from sources.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import { processEntry } from '../../profiler/module-entry.ts'
import { nodeFlags } from './node-flags.ts'

const built = fileURLToPath(new URL('../../dist/trials/predictor/main.js', import.meta.url))
const entry = existsSync(built)
  ? { path: built, execArgv: [] }
  : processEntry('./main', import.meta.url)

interface Started {
  readonly url: string
  readonly startMs: number
  stop(): Promise<void>
}

async function start(...args: string[]): Promise<Started> {
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    [
      ...nodeFlags,
      ...entry.execArgv,
      entry.path,
      '--engine',
      'emulated',
      '--gpu',
      'T4',
      '--precision',
      'fp16',
      '--port',
      '0',
      ...args,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (chunk) => resolve(String(chunk)))
    child.once('exit', (code) => reject(new Error(`the predictor ended with ${code}`)))
  })
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  return {
    url: JSON.parse(line).url,
    startMs: performance.now() - startedAt,
    stop: () => {
      child.kill('SIGTERM')
      return exit
    },
  }
}

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
    const { startMs, stop } = await start('--model', 'bert')
    times.push(startMs)
    await stop()
  }
  console.log(
    `start to ready (${existsSync(built) ? 'build' : 'sources'}): median of 5 ${median(times).toFixed(0)} ms`,
  )
}

/** One request at a time: what a batch takes beyond the modelled time. */
async function accuracy(model: string): Promise<void> {
  const { url, stop } = await start('--model', model, '--max-delay-ms', '0')
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
  const { url, stop } = await start('--model', 'bert-tiny', '--batch-size', '8', ...args)
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

await startUp()
await accuracy('bert-tiny')
await accuracy('bert-base')
await throughput(16)
await throughput(64)
await throughput(64, '--cpu-cores', '2')
