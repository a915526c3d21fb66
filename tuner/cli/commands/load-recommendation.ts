/** Loads a recommendation by the id of an experiment, or from a file. */
import { existsSync } from 'node:fs'
import {
  type RecommendationDocument,
  recommendationDocument,
  toDocument,
} from '../../../reports/report/recommendation-json.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { readGivenFile } from '../../given-file.ts'
import { type ReopenFlags, reopenExperiment } from './reopen-experiment.ts'

/**
 * @param flag flag that named the file, for error messages
 * @throws UserError for an unknown experiment, and for other files
 */
export async function loadRecommendation(
  idOrFile: string,
  flags: ReopenFlags,
  flag: string,
): Promise<RecommendationDocument> {
  if (!/[./\\]/.test(idOrFile) && !existsSync(idOrFile))
    return toDocument((await reopenExperiment(idOrFile, flags)).recommendation)
  const text = readGivenFile(idOrFile, 'the recommendation', flag, 'data')
  const createFileError = (what: string) =>
    new UserError(
      `${idOrFile}: ${what}`,
      'use a recommendation.json of tune, or the output of --json',
      exitCodes.usage,
    )
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    throw createFileError(`is not JSON: ${(error as Error).message}`)
  }
  const parsed = recommendationDocument.safeParse(json)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'document'}: ${message}`)
  throw createFileError(`is not a recommendation: ${faults.join('; ')}`)
}
