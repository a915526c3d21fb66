/** The predictor of an experiment, the devices it uses, and whether they are to be had. */
import { existsSync, statSync } from 'node:fs'
import type { SearchSpace } from '../../search/types.ts'
import { architectureOf } from '../../trials/devices/architecture.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError, namesNear } from '../../trials/devices/errors.ts'
import { migProfilesOf } from '../../trials/devices/mig.ts'
import type { BuiltinTemplate, PredictorTemplate } from '../../trials/launchers/template.ts'
import { modelNames } from '../../trials/predictor/models/names.ts'
import type { PriceBook } from '../../trials/prices/book.ts'
import type { Context } from './context.ts'
import { defaults } from './names.ts'
import type { ExperimentEntries } from './schema.ts'
import type { Experiment, ModelSpec } from './types.ts'
import { parseDurationMs } from './units.ts'
import type { Path } from './yaml-file.ts'

export function resolvePredictor({ entries, report, pathAt, around }: Context, model: ModelSpec): PredictorTemplate {
  const given = entries.predictor ?? {}
  const { command, url, engine, protocol, path, env, envNames, argFormat, files, cwd, readyTimeout } = given
  const pod = entries.kubernetes?.pod !== undefined
  const said = command !== undefined || (pod && url === undefined) ? 'command' : url !== undefined ? 'url' : 'builtin'
  if (command !== undefined && url !== undefined)
    report(['predictor', 'url'], 'a predictor with both a command and a URL', 'keep one of them')
  if (given.kind !== undefined && given.kind !== said)
    report(
      ['predictor', 'kind'],
      `kind ${given.kind}, but its keys make it ${said}`,
      `a ${given.kind} predictor needs ${given.kind === 'builtin' ? 'neither command nor url' : `'${given.kind}'`}`,
    )
  const meant: Record<string, readonly string[]> = {
    builtin: ['kind', 'engine', 'protocol', 'env', 'readyTimeout'],
    command: ['kind', 'command', 'protocol', 'path', 'env', 'envNames', 'argFormat', 'files', 'cwd', 'readyTimeout'],
    url: ['kind', 'url', 'protocol', 'path', 'readyTimeout'],
  }
  for (const key of Object.keys(given))
    if (!meant[said]!.includes(key) && key !== 'command' && key !== 'url')
      report(['predictor', key], `'${key}' means nothing for a ${said} predictor`, 'remove it')
  const readyTimeoutS = (readyTimeout ?? parseDurationMs(defaults.readyTimeout)) / 1000
  if (said === 'builtin') {
    if (protocol === 'json' || protocol === 'openai')
      report(['predictor', 'protocol'], `the built-in predictor does not speak ${protocol}`, 'use oip-v2 or tfserving')
    const asked = protocol === 'tfserving' ? protocol : 'oip-v2'
    return {
      kind: 'builtin',
      model: model.name,
      engine: engine ?? (model.path?.endsWith('.onnx') ? 'onnx' : 'auto'),
      protocol: asked,
      env,
      readyTimeoutS,
    }
  }
  if (protocol === 'json' && path === undefined)
    report(['predictor', 'protocol'], "protocol 'json' needs the path of the inference call", 'say path: /predict')
  const common = { model: model.name, protocol: protocol ?? ('oip-v2' as const), path, readyTimeoutS }
  if (said === 'url') {
    if (url === undefined || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      report(['predictor', 'url'], `'${url}' is no http URL`, 'write http://127.0.0.1:8000')
    return { kind: 'url', url: url ?? '', ...common }
  }
  if (pod) return { kind: 'command', command: [], envNames, argFormat, ...common }
  const folder = cwd === undefined ? pathAt(['predictor'], '.') : pathAt(['predictor', 'cwd'], cwd)
  if (cwd !== undefined && !(existsSync(folder) && statSync(folder).isDirectory()))
    report(['predictor', 'cwd'], `no folder ${folder}`, 'a path starts from the folder of the file that names it')
  const texts = Object.entries(files ?? {}).map(([file, template]) => ({ path: file, template }))
  return { kind: 'command', command: command ?? [], env, envNames, argFormat, files: texts, cwd: folder ?? around.cwd, ...common }
}

/** 'predictor.command[2]: unknown ...' of a template's own check, put where the key stands. */
export function reportTemplate({ report }: Context, problem: string): void {
  const [, key = '', rest = problem] = /^(command|env|files|argFormat|cwd)\b[^:]*:\s*(.*)$/s.exec(problem) ?? []
  const [what = '', ...hint] = rest.split('; ')
  report(key ? ['predictor', key] : ['predictor'], key ? `predictor.${key}: ${what}` : what, hint.join('; '))
}

export function resolveDevices({ entries, report, around }: Context, predictor: PredictorTemplate): Experiment['devicesUsed'] {
  const devices = entries.devices ?? defaults.devices
  const backend = entries.backend ?? defaults.backend
  const here = around.machine.gpus.length > 0
  if (backend === 'simulated' && predictor.kind !== 'builtin')
    report(['backend'], `a ${predictor.kind} predictor cannot be simulated: what it does is not known`, 'use --backend local')
  if (predictor.kind === 'builtin' && predictor.engine === 'emulated') {
    if (devices === 'cpu' || devices === 'gpu')
      report(['predictor', 'engine'], `the emulated engine beside devices ${devices}`, 'use devices: emulated')
    return 'emulated'
  }
  if (devices === 'emulated') {
    if (predictor.kind !== 'builtin')
      report(
        ['devices'],
        `a ${predictor.kind} predictor cannot use an emulated GPU`,
        'only the built-in predictor can; use devices: cpu or gpu',
      )
    return 'emulated'
  }
  if (devices === 'gpu' && backend === 'local' && !here)
    report(['devices'], 'no GPU here that a predictor can use', 'tune doctor says why; use --devices emulated or cpu')
  if (devices !== 'auto') return backend === 'simulated' && devices === 'gpu' ? 'emulated' : devices
  if (predictor.kind !== 'builtin') return asksForGpu(entries) ? 'gpu' : 'cpu'
  if (backend === 'kubernetes') return 'gpu'
  return backend === 'local' && here ? 'gpu' : 'emulated'
}

const asksForGpu = ({ space, pin }: ExperimentEntries) => Object.hasOwn(space ?? {}, 'gpu') || Object.hasOwn(pin ?? {}, 'gpu')

/** GPUs of the space must have a price, and be there where they are not emulated. */
export function checkGpus(
  { entries, report, around }: Context,
  space: SearchSpace,
  devicesUsed: Experiment['devicesUsed'],
  book: PriceBook,
): void {
  const gpu = space.parameters.find((parameter) => parameter.name === 'gpu')
  if (gpu?.kind !== 'categorical') return
  const at: Path = Object.hasOwn(entries.pin ?? {}, 'gpu') ? ['pin', 'gpu'] : ['space', 'gpu']
  const names = gpu.values.filter((name) => name !== 'none')
  if (devicesUsed === 'cpu' && names.length > 0 && entries.devices === 'cpu')
    report(at, `GPUs (${names.join(', ')}) with devices: cpu`, 'leave one of the two out')
  checkMigProfiles(report, space, names)
  for (const name of names) {
    if (!book.gpus[name])
      report(
        at,
        `the price book '${book.name}' has no price for the GPU ${name}`,
        `give one with --prices: gpus: { ${name}: 1.20 }; it has ${Object.keys(book.gpus).join(', ')}`,
      )
    if (
      devicesUsed === 'gpu' &&
      (entries.backend ?? defaults.backend) === 'local' &&
      around.machine.gpus.length > 0 &&
      !around.machine.gpus.includes(name) &&
      entries.predictor?.kind !== 'url'
    )
      report(
        at,
        `this machine has no GPU ${name}`,
        `it has ${[...new Set(around.machine.gpus)].join(', ')}; --devices emulated emulates others`,
      )
  }
}

/** A MIG profile must exist on one of the GPUs at least; on the others it is an infeasible trial. */
function checkMigProfiles(report: Context['report'], space: SearchSpace, gpus: readonly string[]): void {
  const parameter = space.parameters.find(({ name }) => name === 'migProfile')
  if (parameter?.kind !== 'categorical') return
  const known = gpus.flatMap((gpu) => migProfilesOf(findGpu(gpu)).map((profile) => profile.name))
  for (const profile of parameter.values.filter((value) => value !== 'none' && !known.includes(value)))
    report(
      ['space', 'migProfile'],
      `migProfile: none of ${gpus.join(', ')} has the profile ${profile}`,
      known.length > 0 ? namesNear(profile, [...new Set(known)]) : 'MIG is on A30, A100, H100 and later',
    )
}

/**
 * The built-in predictor as it will be started. Real engines serve a user's own files under the model's name; an emulated device, and a model
 * built with seeded weights, go by the architecture.
 */
export function builtinFor(template: BuiltinTemplate, model: ModelSpec, devicesUsed: Experiment['devicesUsed']): BuiltinTemplate {
  if (devicesUsed === 'emulated') return { ...template, model: model.architecture, engine: 'emulated' }
  if (model.path === undefined) return { ...template, model: model.architecture }
  const version: Record<string, string> = model.version === undefined ? {} : { MODEL_VERSION_POLICY: `specific:${model.version}` }
  return { ...template, model: model.name, env: { MODEL_PATH: model.path, ...version, ...template.env } }
}

/** The model must be one that the engine can build or the device model knows, unless its own files are loaded by a real engine. */
export function checkArchitecture(
  { report, broken, entries }: Context,
  model: ModelSpec,
  predictor: PredictorTemplate,
  devicesUsed: Experiment['devicesUsed'],
): void {
  if (broken.has('model') || entries.model === undefined) return
  if (predictor.kind === 'builtin' && model.version !== undefined && model.path === undefined)
    report(['model', 'version'], 'a version of a model without files', 'give the path of the folder with its version folders')
  if (!/^[^/:\s]+$/.test(model.name)) report(['model', 'name'], `'${model.name}' cannot be a name in a URL`, 'no slash, colon or space')
  if (predictor.kind !== 'builtin' || (model.path !== undefined && devicesUsed !== 'emulated')) return
  const own = model.path === undefined ? '' : '; emulating your own model needs the architecture nearest to it: architecture: bert-base'
  try {
    const architecture = architectureOf(model.architecture)
    if (devicesUsed === 'emulated' || (modelNames as readonly string[]).includes(architecture.name)) return
    report(
      ['model'],
      `the built-in predictor cannot run '${model.architecture}' for real`,
      `it can emulate it (--devices emulated), and runs ${modelNames.join(', ')}, or a model by its path`,
    )
  } catch (error) {
    if (!(error instanceof DeviceModelError)) throw error
    report(['model'], `unknown model '${model.architecture}'`, `${error.hint ?? ''}${own}`)
  }
}
