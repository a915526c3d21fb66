/**
 * CPU time of a request in each thread of the predictor, texts and photographs, from the kernel's
 * accounts (Linux): what `trials/launchers/simulated/cpu-stage.ts` says of it. Then the same where
 * it infers on a core: less the batch's own time (engine-time.ts), that is what
 * `trials/launchers/simulated/modelled-server.ts` has around it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { HttpLoadGenerator, protocolFor } from '../../profiler/index.ts'
import { startPredictor } from './started-predictor.ts'

/** CPU time of each thread, of its instances' processes too, ms, by thread id. */
function threadsMs(pid: number): Map<number, number> {
  const processes = [
    pid,
    ...readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .split(' ')
      .filter(Boolean)
      .map(Number),
  ]
  const threads = processes.flatMap((of) =>
    readdirSync(`/proc/${of}/task`).map((id) => [of, Number(id)] as const),
  )
  return new Map(
    threads.map(([of, id]) => [
      id,
      Number(readFileSync(`/proc/${of}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6,
    ]),
  )
}

async function measured(
  model: string,
  args: readonly string[],
  connections: number,
  engine = emulated,
): Promise<void> {
  const { url, pid, stop } = await startPredictor(...engine, '--model', model, ...args)
  try {
    await measuredAt(url, pid, model, args, connections)
  } finally {
    await stop()
  }
}

const emulated = ['--engine', 'emulated', '--gpu', 'H100', '--batch-size', '8']
const onCores = ['--engine', 'tfjs', '--sequence-length', '128']

async function measuredAt(
  url: string,
  pid: number,
  model: string,
  args: readonly string[],
  connections: number,
): Promise<void> {
  const generator = new HttpLoadGenerator()
  try {
    const { signal } = new AbortController()
    const target = await protocolFor('oip-v2', { timeoutMs: 10_000 }).prepare(
      url,
      model,
      { kind: 'generated', count: 16, seed: 1 },
      signal,
    )
    const load = { kind: 'closed', connections, durationS: 4 } as const
    await generator.play(target, load, signal)
    const before = threadsMs(pid)
    const run = await generator.play(target, load, signal)
    const requests = run.latencyMs.length
    const used = [...threadsMs(pid)].map(([id, ms]) => ({
      id,
      us: (1000 * (ms - (before.get(id) ?? 0))) / requests,
    }))
    const main = used.find(({ id }) => id === pid)!.us
    const others = used.filter(({ id, us }) => id !== pid && us > 0.5).sort((a, b) => b.us - a.us)
    const sizes = target.bodies.map(({ body }) => body.length)
    console.log(
      `${model} ${args.join(' ')}, ${connections} connections: ${Math.round(requests / 4)} req/s of ${Math.round(sizes.reduce((a, b) => a + b) / sizes.length)} bytes; us a request: ` +
        `event loop ${main.toFixed(0)}; other threads ${others.map(({ us }) => us.toFixed(0)).join(', ')}`,
    )
  } finally {
    await generator.close()
  }
}

export async function printThreadTimes(): Promise<void> {
  await measured('bert-tiny', ['--cpu-cores', '1', '--sequence-length', '128'], 32)
  await measured('bert-tiny', ['--cpu-cores', '1', '--sequence-length', '512'], 32)
  await measured('bert-tiny', ['--cpu-cores', '2', '--sequence-length', '128'], 32)
  await measured('bert-tiny', ['--cpu-cores', '1', '--sequence-length', '128'], 4)
  await measured('mobilenet', ['--cpu-cores', '1'], 16)
  await measured('mobilenet', ['--cpu-cores', '2'], 16)
  for (const [model, batch, connections] of [
    ['bert-tiny', '1', 1],
    ['bert-tiny', '1', 4],
    ['bert-tiny', '8', 8],
    ['bert-mini', '1', 1],
    ['bert-mini', '1', 4],
  ] as const)
    await measured(model, ['--cpu-cores', '1', '--batch-size', batch], connections, onCores)
}
