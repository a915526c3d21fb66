/**
 * What `tune watch --apply` has under way or has done to a Deployment, kept in the store beside the
 * watch: a process that is killed leaves it to the next look.
 */
import { keepWatch, readWatches } from '../../../trials/store/index.ts'
import { tellDamage } from '../../tell-damage.ts'
import type { Undoing } from './undo.ts'

const schema = 'tune.apply/v1'

/** A change of a Deployment, from its canary on. */
export interface Change {
  /**
   * `promoting`: the Deployment is about to be changed, or was; `judged`: it was, and what it
   * serves is judged; `kept`: it was found to keep the SLO.
   */
  readonly phase: 'canary' | 'promoting' | 'judged' | 'kept'
  readonly namespace: string
  readonly deployment: string
  readonly from: number
  readonly to: number
  readonly startedAt: string
  /** At which its pods serve. */
  readonly port: number
  /** What to put back, in this order; nothing while there is only a canary. */
  readonly undo: readonly Undoing[]
}

/** A trial that was stepped back from, which is not tried again for a while. */
interface SteppedBack {
  readonly trial: number
  readonly at: string
  readonly why: string
}

export interface ApplyRecord {
  readonly change?: Change
  readonly steppedBack: readonly SteppedBack[]
}

const keyOf = (watch: string): string => `${watch} (apply)`

/** For so long a trial that was stepped back from is passed over. */
export const passedOverDays = 7

export async function readRecord(db: string, watch: string, nowS: number): Promise<ApplyRecord> {
  const found = (await readWatches(db, tellDamage(db))).get(keyOf(watch)) as
    | (ApplyRecord & { readonly schema: string })
    | undefined
  if (found?.schema !== schema) return { steppedBack: [] }
  const recent = found.steppedBack.filter(
    ({ at }) => nowS - Date.parse(at) / 1000 < passedOverDays * 24 * 3600,
  )
  return { ...(found.change && { change: found.change }), steppedBack: recent }
}

export const keepRecord = (db: string, watch: string, record: ApplyRecord): Promise<void> =>
  keepWatch(db, keyOf(watch), { schema, ...record }, new Date().toISOString())
