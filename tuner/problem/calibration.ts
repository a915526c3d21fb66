/** Chooses the stored calibration that models an experiment's server. */
import { basename } from 'node:path'
import type { ServerCalibration } from '../../trials/devices/server-calibration.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import { readCalibrations } from '../../trials/store/index.ts'
import type { Experiment } from '../config/types.ts'
import { createDamageReporter } from '../damage-reporter.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { findArchitectures } from './estimators.ts'

/**
 * Name of a server in the store: 'triton', 'python serve.py' or an address, without arguments that
 * are tuned.
 */
export function nameServer(predictor: PredictorTemplate): string {
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
 * Adds the calibration that the experiment names, or the newest one of its server and model.
 * @throws UserError for an unknown name
 */
export async function applyCalibration(
  experiment: Experiment,
  onDamage = createDamageReporter(experiment.dbPath),
): Promise<Experiment> {
  const { calibration: named, predictor, model, own: ownDevices, dbPath, stages } = experiment
  if (stages !== undefined) return experiment
  if (named === 'none' || (named === undefined && predictor.kind === 'builtin')) return experiment
  const calibrations = await readCalibrations(dbPath, onDamage)
  if (named !== undefined) {
    const calibration = calibrations.find(({ name }) => name === named)
    if (calibration) return { ...experiment, calibrated: calibration }
    throw new UserError(
      `no calibration '${named}' in ${dbPath}`,
      calibrations.length > 0
        ? `the store has: ${calibrations.map(({ name }) => name).join(', ')}`
        : 'run tune calibrate to measure one',
      exitCodes.usage,
    )
  }
  const models = findArchitectures([model.architecture], ownDevices).map(({ name }) => name)
  const matching = calibrations.filter(
    (one) =>
      one.server === nameServer(predictor) &&
      models.includes(one.model) &&
      hasCalibratedGpu(experiment, one),
  )
  const newest = [...matching].sort((a, b) => b.measuredAt.localeCompare(a.measuredAt))[0]
  return newest === undefined ? experiment : { ...experiment, calibrated: newest }
}

/**
 * Whether the space contains the calibrated GPU. For other GPUs, the user must name the
 * calibration.
 */
const hasCalibratedGpu = ({ space }: Experiment, { configuration }: ServerCalibration): boolean =>
  space.parameters.some(
    (p) =>
      p.name === 'gpu' && p.kind === 'categorical' && p.values.includes(String(configuration.gpu)),
  )
