/** `tune store`: checks and backs up a trial store. */
import { resolve } from 'node:path'
import { backUpStore, checkStore, type Damage } from '../../../../trials/store/index.ts'
import { exitCodes } from '../../../exit-codes.ts'
import { requireStore } from '../open-existing.ts'

export interface StoreFlags {
  readonly db: string
  readonly json?: boolean
}

/** Returns the exit code: 1 when something is damaged. */
export async function checkTrialStore({ db, json }: StoreFlags): Promise<number> {
  requireStore(db)
  const check = await checkStore(db)
  printResult(json, { file: resolve(db), sound: check.damage.length === 0, ...check }, [
    ...formatDamage(check.damage),
    `${db}: ${check.experiments} experiments and ${check.trials} trials are readable, ${check.damage.length || 'nothing'} is damaged`,
  ])
  return check.damage.length === 0 ? exitCodes.ok : exitCodes.failure
}

/** Returns the exit code: 1 when something could not be copied. */
export async function backupTrialStore(to: string, { db, json }: StoreFlags): Promise<number> {
  requireStore(db)
  const copy = await backUpStore(db, to)
  printResult(json, { file: resolve(to), complete: copy.damage.length === 0, ...copy }, [
    ...formatDamage(copy.damage),
    `${to}: ${copy.experiments} experiments and ${copy.trials} trials, verified by reading the copy${copy.damage.length === 0 ? '' : `; it does not contain the damaged items above`}`,
  ])
  return copy.damage.length === 0 ? exitCodes.ok : exitCodes.failure
}

const formatDamage = (damage: readonly Damage[]): string[] =>
  damage.map(({ where, what }) => `damaged: ${where}: ${what}`)

const printResult = (
  json: boolean | undefined,
  document: object,
  text: readonly string[],
): void => {
  process.stdout.write(json ? `${JSON.stringify(document, null, 2)}\n` : `${text.join('\n')}\n`)
}
