/**
 * What is done to runs with real predictors: they are hostile, or something is killed at a random
 * moment.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ChaosBox, type Ended } from './chaos-box.ts'
import type { Draw } from './draw.ts'
import { type Fate, hostilePredictors } from './hostile-predictors.ts'
import type { Verdict } from './simulated-faults.ts'
import { finishedTrials, wrongEnd } from './verdicts.ts'

const server = fileURLToPath(new URL('./hostile-server.mjs', import.meta.url))

/** A good one must be told from a bad one on a busy machine too. */
const readyTimeout = (kind: string) =>
  ['fails', 'refused', 'dies'].includes(hostilePredictors[kind]!) ? '4s' : '20s'

const experiment = (kind: string, batches: string) => `
name: chaos
model: m
slo: p75<500ms
predictor:
  command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(server)}]
  env: {BEHAVIOUR: ${JSON.stringify(kind)}, PORT: '\${port}', BATCH: '\${batch}'}
  readyTimeout: ${readyTimeout(kind)}
space: {batch: {values: [${batches}], category: server}}
pin: {cpuCores: 1}
load: {trialTime: 1s, timeout: 2s}
budget: {maxTrials: 3}
confirm: false
`

function boxWith(kind: string, batches = '1'): ChaosBox {
  const box = new ChaosBox()
  writeFileSync(join(box.folder, 'e.yaml'), experiment(kind, batches))
  return box
}
const runArgs = ['-f', 'e.yaml', '--events']
const failure = 1
const anyResult = [0, failure, 3, 4]
/** A recommendation. */
const recommended = [0, 4]
const mostLeftS = 5

const nothingLeft = async (box: ChaosBox): Promise<Verdict> => {
  const left = await box.leftAfter(mostLeftS)
  return left.length === 0 ? undefined : `${mostLeftS} s later there still is ${left.join('; ')}`
}

/** A predictor of a kind gets what it deserves. */
export async function hostilePredictor(kind: string): Promise<Verdict> {
  const box = boxWith(kind)
  try {
    const ended = await box.start(runArgs).ended
    const wrong = wrongEnd(ended, anyResult) ?? (await nothingLeft(box))
    if (wrong !== undefined) return wrong
    return undeserved(hostilePredictors[kind]!, ended)
  } finally {
    box.dispose()
  }
}

function undeserved(fate: Fate, ended: Ended): Verdict {
  const trials = finishedTrials(ended)
  if (!['serves', 'any'].includes(fate) && recommended.includes(ended.code!))
    return `is recommended: ${ended.stderr.slice(-300)}`
  if (fate === 'fails' && ended.code !== failure)
    return `ends with exit code ${ended.code}: ${ended.stderr.slice(-300)}`
  const complete = trials.find(({ state }) => state === 'complete')
  if (fate === 'dies' && complete !== undefined)
    return `trial ${complete.number} is complete: ${ended.stderr.slice(-300)}`
  const bad = trials.find(({ state }) => state !== 'complete')
  return fate === 'serves' && bad !== undefined
    ? `is ${bad.state}: ${bad.error ?? bad.detail}`
    : undefined
}

/**
 * Something of a run is killed at a random moment: a predictor, the load generator, the tuner, or
 * all of them.
 */
export const killed = {
  predictor: (draw: Draw) => killing(draw, /hostile-server\.mjs/),
  'load generator': (draw: Draw) => killing(draw, /generator\/child/),
  tuner: (draw: Draw) => killing(draw, undefined),
  everything: (draw: Draw) => killing(draw, /./),
} as const

/** @param victims by their command line; undefined: the tuner alone */
async function killing(draw: Draw, victims: RegExp | undefined): Promise<Verdict> {
  const box = boxWith('serves well', '1, 2')
  try {
    const { child, ended } = box.start(runArgs)
    await Promise.race([ended, untilServing(box)])
    await Promise.race([ended, sleep(draw.whole(0, 5_000))])
    const found =
      victims === undefined ? [] : box.processes().filter(({ command }) => victims.test(command))
    for (const { pid } of found) kill(pid)
    const tunerToo = victims === undefined || found.some(({ pid }) => pid === child.pid)
    if (tunerToo) child.kill('SIGKILL')
    const end = await ended
    const left = await nothingLeft(box)
    if (left !== undefined) return left
    if (!tunerToo) return wrongEnd(end, anyResult)
    const seen = finishedTrials(end).length
    const list = await box.start(['list', '--json']).ended
    const wrong = wrongEnd(list, [0, 1, 2])
    if (wrong !== undefined) return `list ${wrong}`
    const [kept] =
      list.code === 0 ? (JSON.parse(list.stdout) as { id: string; trials: number }[]) : []
    if ((kept?.trials ?? 0) < seen)
      return `${seen} trials were finished, and ${kept?.trials ?? 0} are kept`
    const again = await box.start(kept === undefined ? runArgs : ['resume', kept.id, '--events'])
      .ended
    return wrongEnd(again, anyResult) ?? (await nothingLeft(box))
  } finally {
    box.dispose()
  }
}

async function untilServing(box: ChaosBox): Promise<void> {
  const untilMs = performance.now() + 20_000
  while (
    performance.now() < untilMs &&
    !box.processes().some(({ command }) => command.includes('hostile-server'))
  )
    await sleep(100)
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended meanwhile.
  }
}
