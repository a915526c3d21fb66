/** What a look leaves for the next one, in the store. */
import { type WatchState, watchSchema } from '../../../reports/watch/watch.ts'
import { readWatches } from '../../../trials/store/index.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { tellDamage } from '../../tell-damage.ts'

interface Kept {
  readonly state: WatchState
  readonly place?: unknown
  readonly windowS: number
}

/**
 * What the last watch of that name left, where it was of the same windows. @throws UserError where
 * it was of others
 */
export async function keptOf(db: string, name: string, windowS: number): Promise<Kept | undefined> {
  const found = (await readWatches(db, tellDamage(db))).get(name) as Kept | undefined
  if (found?.state?.schema !== watchSchema) return undefined
  if (found.windowS === windowS) return found
  throw new UserError(
    `the watch ${name} uses windows of ${found.windowS} s`,
    `use --window ${found.windowS}s, start again with --reset, or start another watch with --name`,
    exitCodes.usage,
  )
}
