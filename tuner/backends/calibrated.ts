/** Which calibration of the store an experiment's server is modelled with. */
import { basename } from 'node:path'
import type { ServerCalibration } from '../../trials/devices/server-calibration.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import { readCalibrations } from '../../trials/store/index.ts'
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { tellDamage } from '../tell-damage.ts'
import { architecturesNamed } from './estimators.ts'

/**
 * What a server is called: 'triton', 'python serve.py', an address; arguments that are tuned are no
 * part of it.
 */
export function serverName(predictor: PredictorTemplate): string {
  if (predictor.kind === 'builtin') return `built-in ${predictor.engine}`
  if (predictor.kind === 'url')
    return URL.canParse(predictor.url) ? new URL(predictor.url).host : predictor.url
  if (predictor.kind === 'imported') return predictor.from.join('; ')
  if (predictor.server !== undefined) return predictor.server.kind
  const [program = '', ...rest] = predictor.command
  const script = rest.find((word) => !word.startsWith('-') && !word.includes('${'))
  return [program, ...(script === undefined ? [] : [script])]
    .map((word) => basename(word))
    .join(' ')
}

/**
 * The experiment with the calibration that it names, or the newest of its server and model.
 * @throws UserError for a name that the store does not have, with those that it has
 */
export async function withCalibration(
  experiment: Experiment,
  onDamage = tellDamage(experiment.dbPath),
): Promise<Experiment> {
  const { calibration: named, predictor, model, own: devices, dbPath } = experiment
  if (named === 'none' || (named === undefined && predictor.kind === 'builtin')) return experiment
  const known = await readCalibrations(dbPath, onDamage)
  if (named !== undefined) {
    const found = known.find(({ name }) => name === named)
    if (found) return { ...experiment, calibrated: found }
    throw new UserError(
      `no calibration '${named}' in ${dbPath}`,
      known.length > 0
        ? `the store has: ${known.map(({ name }) => name).join(', ')}`
        : 'run tune calibrate to measure one',
      exitCodes.usage,
    )
  }
  const models = architecturesNamed([model.architecture], devices).map(({ name }) => name)
  const own = known.filter(
    (one) =>
      one.server === serverName(predictor) &&
      models.includes(one.model) &&
      reaches(experiment, one),
  )
  const newest = [...own].sort((a, b) => b.measuredAt.localeCompare(a.measuredAt))[0]
  return newest === undefined ? experiment : { ...experiment, calibrated: newest }
}

/** Whether the space has its GPU: from another GPU a server is foretold when the user says so. */
const reaches = ({ space }: Experiment, { configuration }: ServerCalibration): boolean =>
  space.parameters.some(
    (p) =>
      p.name === 'gpu' && p.kind === 'categorical' && p.values.includes(String(configuration.gpu)),
  )
