/**
 * A fleet as `tune fleet` plans it, launched and loaded: `npm run bench:fleet-play -- [hours of the
 * day, 24]`. Four built-in language encoders on two emulated A30s that are cut by MIG: every
 * placement is a predictor of this machine with an emulated slice, loaded by its model's trace at
 * 60 times its speed (a day in 24 minutes, at the rates of the trace) by a client that shares no
 * code with the tuner. Exit code 1 where an SLO is missed, a request fails, or the money is not as
 * said.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { predictorEnvironment } from '../../trials/launchers/builtin.ts'
import { resourcesOf } from '../../trials/resources.ts'
import type { ClientModel, ClientSaw, Played } from '../commands/fleet/testing/plain-client.ts'
import {
  type Placement,
  type PlayedFleet,
  type PlayedModel,
  playedFleet,
} from '../commands/fleet/testing/played-fleet.ts'
import { table } from '../render/columns.ts'
import { cli } from '../testing/run-cli.ts'

const hours = Number(process.argv[2] ?? 24)
if (!(hours > 0 && hours <= 24))
  throw new RangeError('npm run bench:fleet-play -- HOURS: above 0 and at most 24')
const speed = 60
const [predictor, client] = [
  '../../dist/trials/predictor/main.js',
  '../commands/fleet/testing/plain-client.ts',
].map((path) => fileURLToPath(new URL(path, import.meta.url))) as [string, string]
const folder = mkdtempSync(join(tmpdir(), 'fleet-play-'))
const stops: (() => Promise<void>)[] = []
try {
  process.exitCode = (await play()) ? 0 : 1
} finally {
  await Promise.all(stops.map((stop) => stop()))
  rmSync(folder, { recursive: true, force: true })
}

async function play(): Promise<boolean> {
  const fleet = await playedFleet(folder, (args) => run(process.execPath, [cli, ...args]))
  console.log(
    'EMULATED GPUs: every batch takes the time that the device model gives, on predictors that listen; nothing is computed.',
  )
  for (const [i, slices] of fleet.gpus.entries())
    console.log(`GPU ${i}: A30 cut into ${slices.join(', ')}: ${livesOn(fleet, i)}`)
  const models: ClientModel[] = []
  for (const { placements, experiment, ...model } of fleet.models) {
    const replicas = []
    for (const placement of placements)
      replicas.push({
        url: await serve(model.name, placement, experiment),
        weight: placement.rateRps,
      })
    models.push({ ...model, replicas })
  }
  console.log(
    `${models.reduce((sum, { replicas }) => sum + replicas.length, 0)} predictors serve; ${hours} hours of the traces, ${Math.round((hours * 60) / speed)} min`,
  )
  const saw = await load({ speed, hours, models })
  return told(fleet, saw)
}

function livesOn({ models }: PlayedFleet, gpu: number): string {
  const on = models.flatMap(({ name, placements }) =>
    placements
      .filter(({ gpuNumber }) => gpuNumber === gpu)
      .map(({ slice }) => `${name} on ${slice}`),
  )
  return on.join(', ') || 'nobody'
}

/** A predictor with the emulated slice that the plan gives it. */
async function serve(
  model: string,
  { configuration }: Placement,
  { experiment }: PlayedModel['experiment'],
): Promise<string> {
  const template = experiment.predictor
  if (template.kind !== 'builtin') throw new TypeError(`${model} is no built-in model`)
  const env = predictorEnvironment(template, configuration, 'emulated', resourcesOf(configuration))
  const child = spawn(process.execPath, [predictor], {
    env: { ...process.env, ...env, HOST: '127.0.0.1', PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  stops.push(async () => {
    if (child.exitCode === null && child.kill('SIGTERM')) await once(child, 'exit')
  })
  const [line] = (await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(([code]) =>
      Promise.reject(new Error(`a predictor of ${model} ended with ${code}`)),
    ),
  ])) as [Buffer]
  return (JSON.parse(String(line)) as { readonly url: string }).url
}

async function load(
  plan: Played & { readonly models: readonly ClientModel[] },
): Promise<readonly ClientSaw[]> {
  const { code, stdout, stderr } = await run(
    process.execPath,
    ['--import', 'tsx', client],
    JSON.stringify(plan),
  )
  if (code !== 0) throw new Error(`the client ended with ${code}: ${stderr}`)
  return JSON.parse(stdout) as readonly ClientSaw[]
}

function told(
  { saidPerHour, countedPerHour, models }: PlayedFleet,
  saw: readonly ClientSaw[],
): boolean {
  const rows = saw.map((one) => {
    const { placements, sloMs } = models.find(({ name }) => name === one.name)!
    const ms = (value: number) => `${Math.round(value)} ms`
    return [
      ...[
        one.name,
        String(placements.length),
        String(one.requests),
        `${((one.requests / hours / 3600) * speed).toFixed(1)} req/s`,
      ],
      ...[
        String(one.failed),
        ms(one.sloMs),
        one.worstHourMs === 0 ? '-' : ms(one.worstHourMs),
        ms(sloMs),
        one.kept ? 'kept' : 'MISSED',
      ],
    ]
  })
  console.log(
    table([
      [
        'model',
        'replicas',
        'requests',
        'mean rate',
        'failed',
        'p99',
        'p99 of its worst hour',
        'SLO',
        '',
      ],
      ...rows,
    ]).join('\n'),
  )
  const late = Math.max(...saw.map(({ lateMs }) => lateMs))
  console.log(
    `the client was late with a request by ${Math.round(late)} ms at most, which is counted as latency`,
  )
  const asSaid = Math.abs(saidPerHour - countedPerHour) < 1e-9
  console.log(
    `said $${saidPerHour.toFixed(2)} per hour, counted by what was launched $${countedPerHour.toFixed(2)}${asSaid ? '' : ': NOT AS SAID'}; a GPU each would be $${(4 * 0.9).toFixed(2)}`,
  )
  return asSaid && saw.every(({ kept, failed }) => kept && failed === 0)
}

async function run(program: string, args: readonly string[], input = '') {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}
