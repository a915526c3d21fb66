/** Finds predictors on this machine whose tuner has ended, of any store, by inherited variables. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isOwned, sweepLeftovers } from './leftovers.ts'
import { endGroup } from './process-group.ts'
import { cookieVariable, readBootId, readProcessStat } from './processes.ts'

/** Variables of every process of a predictor: the folder of its note, and its experiment. */
export const folderVariable = 'TUNE_RUNNING_FOLDER'
export const experimentVariable = 'TUNE_EXPERIMENT_ID'

export interface AbandonedPredictor {
  readonly experiment: string
  readonly cookie: string
  readonly folder: string
  readonly processes: readonly { readonly pid: number; readonly command: string }[]
}

/** Undefined if the machine shows no processes (no /proc). */
export function findAbandoned(): AbandonedPredictor[] | undefined {
  if (!existsSync('/proc/self/environ')) return undefined
  const entries = new Map<
    string,
    { experiment: string; folder: string; processes: { pid: number; command: string }[] }
  >()
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const environment = readEnvironment(pid)
    const cookie = environment.get(cookieVariable)
    const folder = environment.get(folderVariable)
    const stat = readProcessStat(pid)
    if (
      cookie === undefined ||
      folder === undefined ||
      stat === undefined ||
      stat.state === 'Z' ||
      stat.state === 'X'
    )
      continue
    if (isOwned(join(folder, `${cookie}.json`))) continue
    const entry = entries.get(cookie) ?? {
      experiment: environment.get(experimentVariable) ?? '',
      folder,
      processes: [],
    }
    entry.processes.push({
      pid,
      command: (readProcess(pid, 'cmdline') ?? '').replaceAll('\0', ' ').trim(),
    })
    entries.set(cookie, entry)
  }
  return [...entries].map(([cookie, entry]) => ({ cookie, ...entry }))
}

/**
 * SIGTERM, then SIGKILL; their notes are removed too.
 * @throws LaunchError for a process that outlives SIGKILL
 */
export async function endAbandoned(all: readonly AbandonedPredictor[]): Promise<void> {
  for (const { cookie, folder } of all) {
    await endGroup(
      { leader: -1, leaderStartTicks: 0, cookie, bootId: readBootId() },
      graceMs,
      false,
    )
    await sweepLeftovers(folder, graceMs)
  }
}

/** Time from SIGTERM to SIGKILL. Assumed. */
const graceMs = 1_000

const readEnvironment = (pid: number): ReadonlyMap<string, string> =>
  new Map(
    (readProcess(pid, 'environ') ?? '').split('\0').map((entry) => {
      const at = entry.indexOf('=')
      return [entry.slice(0, at), entry.slice(at + 1)] as const
    }),
  )

function readProcess(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    // The process has ended, or is another user's.
    return undefined
  }
}
