/**
 * A recommendation that a user names: of an experiment of the store, or a document that was kept.
 */
import { existsSync } from 'node:fs'
import {
  documentOf,
  type RecommendationDocument,
  recommendationDocument,
} from '../../reports/report/recommendation-json.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { givenText } from '../given-file.ts'
import { type ReopenFlags, reopen } from './reopened.ts'

/**
 * @param flag that names it, for errors
 * @throws UserError for what is neither, and for a document of another kind
 */
export async function recommended(
  idOrFile: string,
  flags: ReopenFlags,
  flag: string,
): Promise<RecommendationDocument> {
  if (!/[./\\]/.test(idOrFile) && !existsSync(idOrFile))
    return documentOf((await reopen(idOrFile, flags)).recommendation)
  const text = givenText(idOrFile, 'the recommendation', flag, 'data')
  const wrong = (what: string) =>
    new UserError(
      `${idOrFile}: ${what}`,
      'use a recommendation.json of tune, or the output of --json',
      exitCodes.usage,
    )
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    throw wrong(`is not JSON: ${(error as Error).message}`)
  }
  const read = recommendationDocument.safeParse(json)
  if (read.success) return read.data
  const faults = read.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'document'}: ${message}`)
  throw wrong(`is not a recommendation: ${faults.join('; ')}`)
}
