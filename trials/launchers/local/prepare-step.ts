/**
 * Runs the template's `prepare` step once before predictors start: it builds an engine, or converts
 * a model. The result is saved under a key of its inputs, so that trials, resumed runs and later
 * experiments with the same inputs reuse it. The states of a result, by its files:
 *
 *     missing ──lock──► KEY.lock and KEY/ ──the step succeeds──► KEY/ and KEY.json: reused
 *        ▲                    │
 *        └── step fails ◄─────┘     the next waiter removes the lock of a dead process
 */
import { createHash, randomUUID } from 'node:crypto'
import {
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makePrivateFolder, privateFileMode } from '../../private-files.ts'
import { InfeasibleError, LaunchError } from '../../types.ts'
import { describeExit, diagnose, type Exit, watchMemoryKills } from '../diagnosis.ts'
import { createExitError } from '../failure.ts'
import { type FilledPrepare, preparedPlaceholder } from '../fill.ts'
import { openLog, type PredictorLog } from '../predictor-log.ts'
import type { ControlGroup } from './control-group.ts'
import { writeRunningNote } from './leftovers.ts'
import { startGroup } from './process-group.ts'
import { getOwnIdentity, isRunning, type ProcessIdentity } from './processes.ts'
import { checkProgram } from './program.ts'
import { watchPredictor } from './warden.ts'

export interface PreparedArtifact {
  /** The value of `${prepared}`. */
  readonly folder: string
  /** Duration of the step, including the wait for another process. */
  readonly seconds: number
  /** Whether an earlier run made the result. */
  readonly reused: boolean
}

interface PrepareContext {
  /** Folder that contains a folder for each key. */
  readonly preparedDirectory: string
  readonly runningDirectory: string
  /** Folder of the trial, for the log. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** Command prefix that pins the step to the trial's cores. */
  readonly prefix: readonly string[]
  /** Creates a control group without a memory limit: building may need more memory than serving. */
  readonly controlGroup: () => Promise<ControlGroup>
  /**
   * Description of the GPU. Part of the key: an engine built for one GPU does not run on another.
   */
  readonly device: string | undefined
  readonly graceMs: number
  readonly logLimitBytes?: number
}

/**
 * Runs the step unless its result exists. On return, all its processes have ended; a partial result
 * is deleted.
 * @throws InfeasibleError if the step fails for this configuration; LaunchError if it would fail
 * for every configuration; the reason of an aborted signal
 */
export async function prepare(
  step: FilledPrepare,
  context: PrepareContext,
  signal: AbortSignal,
): Promise<PreparedArtifact> {
  const startedMs = performance.now()
  const measureSeconds = () => (performance.now() - startedMs) / 1000
  const key = computeCacheKey(step, context)
  makePrivateFolder(context.preparedDirectory)
  const folder = join(context.preparedDirectory, key)
  const isPrepared = () => existsSync(`${folder}.json`) && existsSync(folder)
  const release = await acquireLock(`${folder}.lock`, isPrepared, signal)
  if (release === undefined) return { folder, seconds: measureSeconds(), reused: true }
  try {
    rmSync(folder, { recursive: true, force: true })
    makePrivateFolder(folder)
    await runStep(step, folder, context, signal)
    const record = JSON.stringify({ seconds: measureSeconds(), at: new Date().toISOString() })
    writeFileSync(`${folder}.json.new`, record, { mode: privateFileMode })
    renameSync(`${folder}.json.new`, `${folder}.json`)
    return { folder, seconds: measureSeconds(), reused: false }
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  } finally {
    release()
  }
}

async function runStep(
  step: FilledPrepare,
  folder: string,
  context: PrepareContext,
  signal: AbortSignal,
): Promise<void> {
  const fill = (text: string) => text.replaceAll(preparedPlaceholder, folder)
  const argv = step.argv.map(fill)
  const env = {
    ...context.env,
    ...Object.fromEntries(Object.entries(step.env).map(([name, value]) => [name, fill(value)])),
  }
  const log = openLog(context.folder, context.logLimitBytes, undefined, 'prepare')
  const stopWatching = watchPredictor(context.runningDirectory)
  let controlGroup: ControlGroup | undefined
  let runRecord: ReturnType<typeof writeRunningNote> | undefined
  try {
    controlGroup = await context.controlGroup()
    runRecord = writeRunningNote(context.runningDirectory, controlGroup.folders)
    checkProgram(
      argv[0]!,
      context.cwd,
      env.PATH ?? '',
      step.varies ? 'configuration' : 'experiment',
    )
    const killedSinceStart = watchMemoryKills()
    signal.throwIfAborted()
    const group = await startGroup(
      { argv: controlGroup.wrap([...context.prefix, ...argv]), env, cwd: context.cwd },
      runRecord.cookie,
      log,
      controlGroup.folders,
    )
    try {
      runRecord.addProcesses(group.identity)
      const exit = await waitForEnd(group.exited, step.timeoutS, signal)
      if (exit === undefined)
        throw new InfeasibleError(
          'never-ready',
          `prepare took longer than ${step.timeoutS} s; raise prepare.timeout if it only needs more time`,
          log.path,
        )
      if (exit.code !== 0) throw createFailure(exit, log, step, killedSinceStart())
    } finally {
      await group.stop(context.graceMs)
    }
  } finally {
    try {
      await controlGroup?.end()
      runRecord?.remove()
    } finally {
      await stopWatching()
      log.close()
    }
  }
}

/**
 * Waits for the end of the step.
 * @returns undefined at the timeout
 */
async function waitForEnd(
  exited: Promise<Exit>,
  timeoutS: number,
  signal: AbortSignal,
): Promise<Exit | undefined> {
  const done = new AbortController()
  const doneOrAborted = AbortSignal.any([signal, done.signal])
  const timeout = sleep(timeoutS * 1000, undefined, { signal: doneOrAborted }).catch(() =>
    signal.throwIfAborted(),
  )
  try {
    return (await Promise.race([exited, timeout])) ?? undefined
  } finally {
    done.abort()
  }
}

/**
 * Creates the error of a failed step. A step that does not depend on the configuration would fail
 * for all, so it ends the experiment, except when memory ran out.
 */
function createFailure(
  exit: Exit,
  log: PredictorLog,
  { varies }: FilledPrepare,
  killedForMemory: boolean | undefined,
): Error {
  const cause = diagnose(exit, log.tail(200), killedForMemory)
  const error = createExitError(
    cause,
    `prepare ended: ${describeExit(exit)}`,
    false,
    log,
    hints,
    'it was done',
  )
  const finality = varies ? 'configuration' : 'experiment'
  if (!varies && !(error instanceof InfeasibleError && error.reason === 'out-of-memory'))
    return new LaunchError(
      error.message,
      error instanceof LaunchError ? error.hint : hints.misconfigured,
      log.path,
      finality,
    )
  return error instanceof LaunchError && cause.kind !== 'killed'
    ? new LaunchError(error.message, error.hint, log.path, finality)
    : error
}

const hints = {
  'port-taken': 'change the step so that it opens no port',
  missing: 'install the dependencies of the step in the environment that starts it',
  misconfigured: 'correct `prepare`; tune runs it without a shell',
  killed: 'another program on this machine kills processes',
}

/** Computes the cache key of a result from command, device, and state of the input files. */
function computeCacheKey(
  { argv, env, inputs }: FilledPrepare,
  { cwd, device }: PrepareContext,
): string {
  const mentionedPaths = argv
    .flatMap((word) => [word, word.slice(word.indexOf('=') + 1)])
    .map((word) => resolve(cwd, word))
  const files = [...new Set(mentionedPaths)].filter((path) =>
    statSync(path, { throwIfNoEntry: false })?.isFile(),
  )
  const inputPaths = [...new Set([...files, ...inputs.map((input) => resolve(cwd, input))])].sort()
  const state = inputPaths.map((path) => [path, readFileState(path)])
  return createHash('sha256')
    .update(JSON.stringify([argv, Object.entries(env).sort(), cwd, device, state]))
    .digest('hex')
    .slice(0, 24)
}

/** Larger files are recognised by size and time instead of contents. */
const maxHashedBytes = 64 * 2 ** 20

/**
 * Reads what identifies the contents of a file or folder.
 * @throws LaunchError for a missing file
 */
function readFileState(path: string): unknown {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true })
  if (stat === undefined)
    throw new LaunchError(
      `prepare: no file or folder ${path}`,
      'correct prepare.inputs',
      undefined,
      'experiment',
    )
  if (stat.isDirectory())
    return readdirSync(path)
      .sort()
      .map((name) => [name, readFileState(join(path, name))])
  if (!stat.isFile() || stat.size > maxHashedBytes) return [String(stat.size), String(stat.mtimeNs)]
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

/** Poll interval while another process holds the lock, ms. Assumed. */
const lockPollMs = 200

/**
 * Acquires the lock: one process runs the step while others wait for its result.
 * @returns a function that releases the lock; undefined if `isPrepared`, so that no lock is needed
 */
async function acquireLock(
  path: string,
  isPrepared: () => boolean,
  signal: AbortSignal,
): Promise<(() => void) | undefined> {
  const releaseLock = () => rmSync(path, { force: true })
  while (!isPrepared()) {
    signal.throwIfAborted()
    if (tryLock(path)) {
      if (!isPrepared()) return releaseLock
      releaseLock()
    } else if (!removeStaleLock(path)) await sleep(lockPollMs, undefined, { signal })
  }
  return undefined
}

/** Tries to take the lock. The lock file is complete before it appears under its name. */
function tryLock(path: string): boolean {
  const newLock = `${path}.${randomUUID()}`
  writeFileSync(newLock, JSON.stringify(getOwnIdentity()), { mode: privateFileMode })
  try {
    linkSync(newLock, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(newLock)
  }
}

/**
 * Removes the lock of a dead process.
 * @returns whether it is removed
 */
function removeStaleLock(path: string): boolean {
  const lockOwner = readOwner(path)
  if (lockOwner === undefined) return true
  if (isRunning(lockOwner)) return false
  const movedLock = `${path}.${randomUUID()}`
  try {
    renameSync(path, movedLock)
    // Another waiter has acquired the lock meanwhile: restore it.
    const movedOwner = readOwner(movedLock)
    if (movedOwner?.pid !== lockOwner.pid || movedOwner.startTicks !== lockOwner.startTicks)
      linkSync(movedLock, path)
    rmSync(movedLock)
  } catch (error) {
    if (!['ENOENT', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
  return true
}

function readOwner(path: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ProcessIdentity
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
