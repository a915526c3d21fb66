/**
 * What is done to runs whose trials take milliseconds: the tuner killed, its disk full, its clock
 * set, its store damaged.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { ChaosBox, type Ended } from './chaos-box.ts'
import type { Draw } from './draw.ts'
import { eventsOf, finishedTrials, wrongEnd } from './verdicts.ts'

/** What is wrong; undefined if nothing is. */
export type Verdict = string | undefined

const seeds = 3
const runArgs = (seed: number) => [
  ...[
    '--model',
    'bert',
    '--slo',
    '50ms',
    '--backend',
    'simulated',
    '--no-history',
    '--no-confirm',
    '--max-trials',
    '16',
  ],
  ...['--seed', String(seed), '--certainty', '99.99%'],
]
/** A run that found something, confirmed or not, or nothing. */
const anyResult = [0, 3, 4]

interface Listed {
  readonly id: string
  readonly state: string
  readonly trials: number
}
async function listed(box: ChaosBox): Promise<readonly Listed[] | string> {
  const ended = await box.start(['list', '--json']).ended
  const wrong = wrongEnd(ended, [0, 1, 2])
  if (wrong !== undefined) return `list ${wrong}`
  return ended.code === 0 ? (JSON.parse(ended.stdout) as Listed[]) : []
}

/** What a run comes to: its winner and how many trials it took. */
const outcomeOf = ({ stdout }: Ended): string => {
  const { best, trials } = JSON.parse(stdout) as {
    best?: { label: string; capacityRps: number }
    trials: number
  }
  return `${best?.label} at ${best?.capacityRps} after ${trials}`
}
const undisturbed = new Map<number, Promise<string>>()
function undisturbedOutcome(seed: number): Promise<string> {
  const known =
    undisturbed.get(seed) ??
    (async () => {
      const box = new ChaosBox()
      try {
        return outcomeOf(await box.start([...runArgs(seed), '--json']).ended)
      } finally {
        box.dispose()
      }
    })()
  undisturbed.set(seed, known)
  return known
}

/**
 * Killed at a random moment, as often as not once more when resumed; then it comes to what it would
 * have come to.
 */
export async function tunerKilled(draw: Draw): Promise<Verdict> {
  const seed = draw.whole(1, seeds)
  const expected = await undisturbedOutcome(seed)
  const box = new ChaosBox()
  try {
    let seen = 0
    for (let kill = draw.whole(1, 2); kill > 0; kill--) {
      const known = await listed(box)
      if (typeof known === 'string') return known
      if (known[0]?.state === 'done') break
      const args = known[0] === undefined ? runArgs(seed) : ['resume', known[0].id]
      const { child, ended } = box.start([...args, '--events'])
      await Promise.race([ended, sleep(draw.whole(300, 4_000))])
      child.kill('SIGKILL')
      seen += finishedTrials(await ended).length
    }
    const kept = await listed(box)
    if (typeof kept === 'string') return kept
    const [experiment] = kept
    if ((experiment?.trials ?? 0) < seen)
      return `${seen} trials were finished, and ${experiment?.trials ?? 0} are kept`
    // The kill may have come after its last word.
    const args =
      experiment === undefined
        ? runArgs(seed)
        : [experiment.state === 'done' ? 'show' : 'resume', experiment.id]
    const end = await box.start([...args, '--json']).ended
    const wrong = wrongEnd(end, anyResult)
    if (wrong !== undefined) return `resumed, it ${wrong}`
    const outcome = outcomeOf(end)
    return outcome === expected
      ? undefined
      : `resumed it came to ${outcome}, undisturbed to ${expected}`
  } finally {
    box.dispose()
  }
}

/**
 * A file system that fills up while a run begins; then there is room again. Without the right to
 * mount one: a limit on the size of files.
 */
export async function diskFull(draw: Draw): Promise<Verdict> {
  const outer = new ChaosBox()
  const mounted = mountSmall(outer.folder)
  const box = new ChaosBox(outer.folder)
  try {
    const seed = draw.whole(1, seeds)
    const env: Record<string, string> = mounted
      ? {}
      : {
          NODE_OPTIONS: `--import ${pathToFileURL(fullDisk(outer.folder, draw.whole(40, 400) * 1024))}`,
        }
    const { ended } = box.start([...runArgs(seed), '--events'], { env })
    if (mounted) await fillOnceItRuns(outer.folder, box, draw.whole(8, 200))
    const full = await ended
    const wrong = wrongEnd(full, [...anyResult, 1])
    if (wrong !== undefined) return `on a full disk it ${wrong}`
    if (full.code === 1 && !/space|full|disk|ENOSPC|write/i.test(full.stderr))
      return `on a full disk it does not say so: ${full.stderr.slice(-300)}`
    if (mounted) execFileSync('mount', ['-o', 'remount,size=128m', outer.folder])
    const kept = await listed(box)
    if (typeof kept === 'string') return `with room again, ${kept}`
    const seen = finishedTrials(full).length
    if ((kept[0]?.trials ?? 0) < seen)
      return `${seen} trials were finished, and ${kept[0]?.trials ?? 0} are kept`
    const args =
      kept[0] === undefined
        ? runArgs(seed)
        : [kept[0].state === 'done' ? 'show' : 'resume', kept[0].id]
    const end = await box.start([...args, '--json']).ended
    const still = wrongEnd(end, anyResult)
    return still === undefined ? undefined : `with room again it ${still}`
  } finally {
    box.dispose()
    if (mounted) execFileSync('umount', ['-l', outer.folder])
    outer.dispose()
  }
}

/**
 * Leaves so much room, KiB, once there is a store: a disk that is full before is refused before
 * anything starts.
 */
async function fillOnceItRuns(folder: string, box: ChaosBox, kib: number): Promise<void> {
  const store = join(box.folder, '.tune', 'tune.db')
  for (
    const untilMs = performance.now() + 20_000;
    performance.now() < untilMs && !existsSync(store);
  )
    await sleep(20)
  const { bavail, bsize } = statfsSync(folder)
  try {
    writeFileSync(join(folder, 'filler'), Buffer.alloc(Math.max(0, bavail * bsize - kib * 1024)))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

function mountSmall(folder: string): boolean {
  if (process.getuid?.() !== 0) return false
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/**
 * A module that lets Node's own writes fail beyond so many bytes; the store's, which are SQLite's,
 * it cannot reach.
 */
function fullDisk(folder: string, bytes: number): string {
  const path = join(folder, 'full-disk.mjs')
  writeFileSync(
    path,
    `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module'
let left = ${bytes}
const { writeFileSync } = fs
fs.writeFileSync = (file, data, options) => {
  left -= data.length
  if (left < 0) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  return writeFileSync(file, data, options)
}
syncBuiltinESMExports()
`,
  )
  return path
}

/** The date is set forth and back by up to a day at any look at it. */
export async function clockSteps(draw: Draw): Promise<Verdict> {
  const box = new ChaosBox()
  try {
    const steps = join(box.folder, 'steps.mjs')
    const hours = Array.from({ length: 50 }, () => draw.whole(-24, 24))
    writeFileSync(
      steps,
      `const hours = ${JSON.stringify(hours)}; let looks = 0; const now = Date.now; Date.now = () => now() + 3600_000 * hours[looks++ % hours.length]`,
    )
    const seed = draw.whole(1, seeds)
    const ended = await box.start([...runArgs(seed), '--events'], {
      env: { NODE_OPTIONS: `--import ${pathToFileURL(steps)}` },
    }).ended
    const wrong = wrongEnd(ended, anyResult)
    if (wrong !== undefined) return wrong
    const negative = finishedTrials(ended).find(({ seconds }) => !(seconds >= 0 && seconds < 3_600))
    if (negative !== undefined) return `trial ${negative.number} took ${negative.seconds} s`
    const spent = eventsOf(ended).flatMap((event) => event.spent ?? [])
    return spent.some((value, i) => !(value >= (spent[i - 1] ?? 0)))
      ? `the trials cost ${spent.join(', ')}`
      : undefined
  } finally {
    box.dispose()
  }
}

/**
 * Bits of the store flipped, or a part of it cut off or made zero: what is left can be read, copied
 * into a sound store, and used; the damaged file stays as it is.
 */
export async function storeDamaged(draw: Draw): Promise<Verdict> {
  const box = new ChaosBox()
  try {
    for (const seed of [1, 2])
      await box.start([...runArgs(seed), '--max-trials', '5', '--json']).ended
    const known = await listed(box)
    if (typeof known === 'string') return `before any damage, ${known}`
    const db = join(box.folder, '.tune', 'tune.db')
    const how = damage(db, draw)
    const damaged = readFileSync(db)
    const codes = [0, 1, 2, 3, 4]
    for (const args of [
      ['list'],
      ...known.map(({ id }) => ['show', id]),
      ['store', 'check'],
      ['store', 'backup', 'copy.db'],
      runArgs(3),
    ]) {
      const ended = await box.start(args, { mostS: 120 }).ended
      const wrong = wrongEnd(ended, codes)
      if (wrong !== undefined) return `${how}: tune ${args.slice(0, 2).join(' ')} ${wrong}`
      // A run goes on beside a damaged document, never in a file with damaged pages.
      if (ended.code === 1 && !readFileSync(db).equals(damaged))
        return `${how}: tune ${args.slice(0, 2).join(' ')} wrote into the damaged file`
    }
    if (!existsSync(join(box.folder, 'copy.db'))) return undefined
    for (const args of [runArgs(3), ['store', 'check']]) {
      const ended = await box.start([...args, '--db', 'copy.db'], { mostS: 120 }).ended
      const wrong = wrongEnd(ended, args[0] === 'store' ? [0] : codes)
      if (wrong !== undefined)
        return `${how}: of the copy, tune ${args.slice(0, 2).join(' ')} ${wrong}`
    }
    return undefined
  } finally {
    box.dispose()
  }
}

function damage(path: string, draw: Draw): string {
  const bytes = readFileSync(path)
  const kind = draw.whole(0, 9)
  if (kind === 0) {
    const length = draw.whole(1, bytes.length - 1)
    writeFileSync(path, bytes.subarray(0, length))
    return `cut off after ${length} of ${bytes.length} bytes`
  }
  if (kind === 1) {
    const from = draw.whole(0, bytes.length - 1)
    bytes.fill(0, from, from + draw.whole(1, 8_192))
    writeFileSync(path, bytes)
    return `zeros from byte ${from}`
  }
  const flips = Array.from({ length: draw.whole(1, 8) }, () => draw.whole(0, 8 * bytes.length - 1))
  for (const bit of flips) bytes[bit >> 3]! ^= 1 << (bit & 7)
  writeFileSync(path, bytes)
  return `bits ${flips.join(', ')} of ${8 * bytes.length}`
}
