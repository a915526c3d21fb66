/**
 * Pools of prefill and decode servers (disaggregated serving): their conditions, where they are
 * supported, and the assumptions behind their figures.
 */
import { listParameterValues } from '../../../search/space/space.ts'
import type { Parameter, SearchSpace } from '../../../search/types.ts'
import {
  assumedTransfers,
  formatSplitCondition,
  gpusOfMachine,
  pooledEngines,
} from '../../../trials/launchers/simulated/llm-pools.ts'
import { isStarted, type PredictorTemplate } from '../../../trials/launchers/template.ts'
import { llmDefaults } from '../../../trials/predictor/llm/serving-limits.ts'
import { poolParameters } from '../../../trials/resources.ts'
import type { LanguageServer } from '../../../trials/servers/server-kinds.ts'
import type { Context } from '../context.ts'
import { splitParameters } from '../values/tensor-parallel.ts'

const isPoolParameter = ({ name }: Parameter): boolean =>
  (poolParameters as readonly string[]).includes(name)

/** Largest value of a parameter. */
const findMaxValue = (parameter: Parameter): number =>
  Math.max(...(listParameterValues(parameter) ?? [(parameter as { max: number }).max]).map(Number))

/** Whether any configuration has pools. */
const hasPools = ({ parameters }: SearchSpace): boolean =>
  parameters.some((parameter) => isPoolParameter(parameter) && findMaxValue(parameter) > 0)

/**
 * Conditions that exclude prefill without decode servers, and GPU splits between which the modelled
 * server cannot transfer the KV cache.
 */
export function buildPoolConditions(
  parameters: readonly Parameter[],
  server: LanguageServer = llmDefaults.engine,
): string[] {
  if (parameters.filter(isPoolParameter).length < poolParameters.length) return []
  const split = splitParameters.every((name) =>
    parameters.some((parameter) => parameter.name === name),
  )
  return [
    '(prefillReplicas == 0 and decodeReplicas == 0) or (prefillReplicas > 0 and decodeReplicas > 0)',
    ...(split ? [formatSplitCondition(server)] : []),
  ]
}

const poolExample = '--param prefillReplicas=0,1,2 --param decodeReplicas=0,1,2'

/**
 * Pools can only be simulated, for servers whose KV cache transfer is modelled. A running router is
 * measured with its pool sizes pinned.
 */
export function checkPools(
  { entries, report }: Context,
  predictor: PredictorTemplate,
  space: SearchSpace,
): void {
  const poolParametersInSpace = space.parameters.filter(isPoolParameter)
  if (!hasPools(space)) {
    const decodeGpus = space.parameters.find(({ name }) => name === 'decodeGpus')
    if (decodeGpus !== undefined)
      report(
        [Object.hasOwn(entries.pin ?? {}, 'decodeGpus') ? 'pin' : 'space', 'decodeGpus'],
        'decodeGpus has no effect, because no configuration has decode servers',
        `to tune them, add ${poolExample}`,
      )
    if (predictor.kind === 'builtin' && predictor.kvTransfer !== undefined)
      report(
        ['predictor', 'kvTransfer'],
        'kvTransfer has no effect, because no configuration has prefill and decode servers',
        `to tune them, add ${poolExample}`,
      )
    return
  }
  const { name } = poolParametersInSpace.find((parameter) => findMaxValue(parameter) > 0)!
  const at = [Object.hasOwn(entries.pin ?? {}, name) ? 'pin' : 'space', name]
  if (poolParametersInSpace.length < poolParameters.length) {
    const other = poolParameters.find((one) => one !== name)
    report(
      at,
      `${name} without ${other}: each needs the other to answer requests`,
      `set both: ${poolExample}`,
    )
  }
  if (!isStarted(predictor)) return
  const standsFor =
    predictor.kind === 'builtin' ? (predictor.standsFor ?? llmDefaults.engine) : undefined
  if (standsFor === undefined || entries.backend !== 'simulated')
    report(
      at,
      `${name}: prefill and decode servers can only be simulated`,
      'use --backend simulated with --server vllm or sglang; to measure a running router, set its --url and pin both numbers',
    )
  else if (!pooledEngines.includes(standsFor))
    report(
      at,
      `${name}: prefill and decode servers are not modelled for ${standsFor}`,
      `use ${pooledEngines.join(' or ')}, such as --server vllm`,
    )
}

/** Notices on the assumptions behind simulated pools. */
export function describePools(predictor: PredictorTemplate, space: SearchSpace): string[] {
  if (predictor.kind !== 'builtin' || !hasPools(space)) return []
  const { nvlink, network } = assumedTransfers
  const { gbPerS, latencyMs = network.latencyMs } = predictor.kvTransfer ?? {}
  const bandwidth =
    gbPerS === undefined
      ? `${nvlink.gbPerS} GB/s per GPU over NVLink if one machine of ${gpusOfMachine} GPUs has room for both pools, else ${network.gbPerS} GB/s per GPU over the network (or PCIe)`
      : `${gbPerS} GB/s per GPU`
  return [
    `Prefill and decode pools are SIMULATED and were not validated against real ones. ASSUMED: KV cache transfer at ${bandwidth}, plus ${latencyMs} ms per request (set predictor.kvTransfer to change it). tune spec writes manifests of pools only for SGLang (--server sglang).`,
  ]
}
