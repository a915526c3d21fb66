/**
 * The README's command over several seeds, whole, and where its seconds go: `npm run bench:main-job -- [seeds] [flags of tune]`, about two minutes a
 * seed; default flags `--model bert --slo 50ms`. Best on a machine that does nothing else. For each seed: seconds, trials, what is recommended, its
 * status, whether the rate first asked of it held, and what a plain client in C finds in 30 s at the rate that was held (where there is a C compiler).
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { compilePlainClient } from '../../profiler/bench/plain-client.ts'
import { type LoadPoint, protocolFor, schedule } from '../../profiler/index.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import type { TuneEvent } from '../loop/events.ts'
import { table } from '../render/columns.ts'
import { withBuiltPredictor } from './built-predictor.ts'

const cli = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))
if (!existsSync(cli)) throw new Error('build first: npm run build')
const foreignS = 30
const [, , seedsAsked = '10', ...given] = process.argv
const flags = given.length > 0 ? given : ['--model', 'bert', '--slo', '50ms']
const folder = mkdtempSync(join(tmpdir(), 'main-job-'))

/** Where seconds go: launching, each phase of a trial, choosing, confirming. */
type Spent = Map<string, number>

interface Run {
  readonly seconds: number
  readonly spent: Spent
  readonly recommendation: Recommendation
  readonly exitCode: number | null
  /** Of the first confirmation: the rate that was asked, and whether it held. */
  readonly first?: { readonly rateRps: number; readonly held: boolean }
}

/** What the time before an event was spent on. */
function purposeOf(event: TuneEvent, confirming: boolean): string {
  if (confirming) return 'confirmation'
  if (event.type === 'predictor-ready') return 'launch'
  if (event.type === 'load-step') return event.phase
  if (event.type === 'trial-started') return 'choosing'
  return 'else'
}

async function runOnce(seed: number): Promise<Run> {
  const cwd = mkdtempSync(join(folder, 'run-'))
  const startMs = Date.now()
  const child = spawn(process.execPath, [cli, ...flags, '--seed', String(seed), '--events'], { cwd, stdio: ['ignore', 'pipe', 'ignore'] })
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const spent: Spent = new Map()
  let lastMs = startMs
  let confirming = false
  let asked: LoadPoint | undefined
  let first: Run['first']
  let recommendation: Recommendation | undefined
  for await (const line of createInterface({ input: child.stdout })) {
    const event = JSON.parse(line) as TuneEvent
    const atMs = Date.parse(event.at)
    if (event.type === 'confirming') confirming = true
    const purpose = purposeOf(event, confirming)
    spent.set(purpose, (spent.get(purpose) ?? 0) + (atMs - lastMs) / 1000)
    lastMs = atMs
    if (event.type === 'load-step' && event.phase === 'confirm') asked ??= event.point
    if (event.type === 'confirmed' && first === undefined && asked?.load.kind === 'open')
      first = { rateRps: asked.load.rateRps, held: event.held && event.rateRps >= asked.load.rateRps }
    if (event.type === 'trial-started') confirming = false
    if (event.type === 'recommended') recommendation = event.recommendation
  }
  const exitCode = await exit
  if (recommendation === undefined) throw new Error(`seed ${seed} ended with ${exitCode} and recommended nothing`)
  return { seconds: (lastMs - startMs) / 1000, spent, recommendation, exitCode, first }
}

const plainClient = compilePlainClient(folder)

/** Percentile of the SLO that the plain client finds at the confirmed rate, ms, on an emulated predictor started anew; undefined for others. */
async function foreign({ best, provenance, confirmation, slo }: Recommendation): Promise<number | undefined> {
  if (plainClient === undefined || provenance !== 'emulated' || best === undefined || !confirmation?.held) return undefined
  const { gpu, gpuMemoryPercent = 100, batchSize = 1, cpuCores = 1 } = best.configuration
  const settings = {
    model: 'bert',
    engine: 'emulated',
    gpu,
    'gpu-memory-percent': gpuMemoryPercent,
    'batch-size': batchSize,
    'cpu-cores': cpuCores,
  }
  const named = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const { signal } = new AbortController()
  const asked = async (url: string) => {
    const { path, bodies } = await protocolFor('oip-v2').prepare(url, 'bert', { kind: 'generated', count: 1, seed: 1 }, signal)
    const play = async (seed: number, durationS: number) => {
      const times = schedule({ kind: 'open', rateRps: confirmation.rateRps, durationS, seed, arrivals: { kind: 'poisson' } })
      const tookMs = await plainClient(url, path, String(bodies[0]!.body), times)
      return tookMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms)).sort()
    }
    await play(1, 5)
    const sorted = await play(2, foreignS)
    return sorted[Math.ceil(slo.percentile * sorted.length) - 1]
  }
  return withBuiltPredictor(named, asked, Number(cpuCores) === 1 ? '1' : '0,1')
}

const runs: Run[] = []
const rows = [['seed', 'exit', 'seconds', 'trials', 'recommended', 'status', 'held, req/s', 'first asked', 'plain client']]
for (let seed = 1; seed <= Number(seedsAsked); seed++) {
  const run = await runOnce(seed)
  runs.push(run)
  const { best, trials, confirmation } = run.recommendation
  const found = await foreign(run.recommendation)
  rows.push([
    String(seed),
    String(run.exitCode),
    run.seconds.toFixed(0),
    String(trials),
    best?.label ?? 'none',
    best?.status ?? '-',
    confirmation?.held ? confirmation.rateRps.toFixed(0) : '-',
    run.first ? `${run.first.rateRps.toFixed(0)} ${run.first.held ? 'held' : 'missed'}` : '-',
    found === undefined ? '-' : `${found.toFixed(1)} ms`,
  ])
  console.error(rows.at(-1)!.join('  '))
}
rmSync(folder, { recursive: true, force: true })
console.log(`tune ${flags.join(' ')}\n${table(rows).join('\n')}`)
const seconds = runs.map((run) => run.seconds).sort((a, b) => a - b)
const at = (p: number) => seconds[Math.ceil(p * seconds.length) - 1]!.toFixed(0)
const share = (holds: (run: Run) => boolean) => `${runs.filter(holds).length} of ${runs.length}`
console.log(
  `\nmedian ${at(0.5)} s, p90 ${at(0.9)} s; confirmed ${share((r) => r.recommendation.best?.status === 'confirmed')}; the rate first asked held ${share((r) => r.first?.held === true)}`,
)
const purposes = [...new Set(runs.flatMap((run) => [...run.spent.keys()]))]
const mean = (purpose: string) => runs.reduce((sum, run) => sum + (run.spent.get(purpose) ?? 0), 0) / runs.length
console.log(`\n${table([['seconds of a run', 'mean'], ...purposes.map((purpose) => [purpose, mean(purpose).toFixed(1)])]).join('\n')}`)
