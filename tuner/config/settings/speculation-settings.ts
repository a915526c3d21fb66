/**
 * Speculative decoding: whether the server supports the method, and the assumptions behind
 * simulated figures.
 */
import { listParameterValues } from '../../../search/space/space.ts'
import type { SearchSpace } from '../../../search/types.ts'
import { DeviceModelError } from '../../../trials/devices/device-model-error.ts'
import type { PredictorTemplate } from '../../../trials/launchers/template.ts'
import { llmDefaults } from '../../../trials/predictor/llm/serving-limits.ts'
import { resolveDraft } from '../../../trials/predictor/llm/speculation.ts'
import {
  assumedAcceptance,
  defaultMethod,
  type SpeculativeMethod,
} from '../../../trials/predictor/llm/speculative-methods.ts'
import { findDraftFault } from '../../../trials/servers/language-servers.ts'
import { isLanguageServer, type LanguageServer } from '../../../trials/servers/server-kinds.ts'
import type { Context } from '../context.ts'
import { findLanguageModel } from '../predictor-template.ts'
import type { Experiment } from '../types.ts'

/** Infinity stands for the values of a float without a step, which cannot be listed: it drafts. */
const listValues = (
  { parameters }: Pick<SearchSpace, 'parameters'>,
  name: string,
): readonly (number | string)[] | undefined => {
  const match = parameters.find((parameter) => parameter.name === name)
  return match && (listParameterValues(match) ?? [Number.POSITIVE_INFINITY])
}

/** Methods that the space uses; none if it drafts no tokens. */
function listMethods(space: Pick<SearchSpace, 'parameters'>): readonly SpeculativeMethod[] {
  const tokens = listValues(space, 'speculativeTokens') ?? []
  if (!tokens.some((value) => Number(value) > 0)) return []
  return (listValues(space, 'speculativeMethod') ?? [defaultMethod]) as readonly SpeculativeMethod[]
}

/**
 * Resolves the preset or modelled language-model server; undefined for the user's own server, which
 * has other parameters.
 */
function resolveLanguageServer(predictor: PredictorTemplate): LanguageServer | undefined {
  if (predictor.kind === 'builtin') return predictor.standsFor ?? llmDefaults.engine
  const kind = predictor.kind === 'command' ? predictor.server?.kind : undefined
  return kind !== undefined && isLanguageServer(kind) ? kind : undefined
}

/**
 * The server must support the method, and the draft model must be known. Other checks report models
 * that are no language models.
 */
export function checkSpeculation(
  { report, entries, own }: Context,
  predictor: PredictorTemplate,
  space: SearchSpace,
): void {
  const findPath = (name: string) => [
    Object.hasOwn(entries.pin ?? {}, name) ? 'pin' : 'space',
    name,
  ]
  const names = ['speculativeTokens', 'speculativeMethod', 'speculativeModel'].filter(
    (name) => listValues(space, name) !== undefined,
  )
  if (names.length === 0) return
  if (predictor.kind === 'builtin' && predictor.engine === 'gguf') {
    report(
      findPath(names[0]!),
      `${names[0]}: the built-in predictor does not support speculative decoding through llama.cpp`,
      'leave it out',
    )
    return
  }
  const server = resolveLanguageServer(predictor)
  const target = predictor.kind === 'builtin' ? findLanguageModel(predictor.model, own) : undefined
  if (server === undefined || (predictor.kind === 'builtin' && target === undefined)) return
  const methods = listMethods(space)
  if (methods.length === 0)
    for (const name of names.filter((each) => each !== 'speculativeTokens'))
      report(
        findPath(name),
        `${name} has no effect, because no tokens are drafted`,
        'set their number: speculativeTokens: [0, 2, 4]',
      )
  const models = listValues(space, 'speculativeModel')
  for (const method of methods) {
    // The simulation derives the EAGLE-3 layer from the model itself, so '' passes as its name.
    const model = models === undefined ? undefined : String(models[0])
    const fault = findDraftFault(
      server,
      method,
      method === 'eagle3' && target !== undefined ? (model ?? '') : model,
    )
    if (fault)
      report(
        findPath(
          listValues(space, 'speculativeMethod') ? 'speculativeMethod' : 'speculativeTokens',
        ),
        fault.what,
        fault.hint,
      )
    else if (target !== undefined && method === 'draft')
      for (const name of models ?? []) {
        const unknown = catchDeviceModelError(() =>
          resolveDraft(method, target, String(name), own.architectures),
        )
        if (unknown)
          report(
            findPath('speculativeModel'),
            `speculativeModel: ${unknown.message}`,
            'use a model of the catalogue, or one under architectures',
          )
      }
  }
}

function catchDeviceModelError(find: () => unknown): DeviceModelError | undefined {
  try {
    find()
    return undefined
  } catch (error) {
    if (error instanceof DeviceModelError) return error
    throw error
  }
}

/** Notice on the assumed acceptance rate of simulated drafts; none for real servers. */
export function describeAcceptance({
  predictor,
  space,
}: Pick<Experiment, 'predictor' | 'space'>): string[] {
  const methods = predictor.kind === 'builtin' ? listMethods(space) : []
  if (predictor.kind !== 'builtin' || methods.length === 0) return []
  const { acceptance } = predictor
  const said =
    acceptance === undefined
      ? methods.map((method) => `${assumedAcceptance[method]} (${method})`).join(', ')
      : String(acceptance)
  return [
    `Speculative decoding rests on an ASSUMPTION: each draft token is accepted independently with probability ${said}, for any request. Trials of the real server measure the true value: set it as predictor.acceptance.`,
  ]
}
