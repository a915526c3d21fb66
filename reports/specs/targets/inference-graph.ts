/**
 * KServe InferenceGraph v1alpha1 of a pipeline: for a chain of stages none of which calls another
 * itself. Any other pipeline is wired by addresses in the containers of its stages.
 */
import type { ProtocolName } from '../../../profiler/protocols/protocol-table.ts'
import { buildLabels } from '../availability.ts'
import { describeMissing } from '../placeholders.ts'
import { buildAnnotations } from '../provenance.ts'
import type { Serving } from '../serving.ts'
import type { PipelineRouter } from '../target.ts'

/** Path by which the router of a graph says that it is ready. */
const routerReadyPath = '/readyz'

/**
 * @param name of the graph
 * @param nameUrl address of a stage
 * @returns undefined if the stages call each other, or are no chain of single calls
 */
export function buildInferenceGraph(
  name: string,
  stages: readonly Serving[],
  deploymentMode: 'Standard' | 'Knative',
  nameUrl: (serving: Serving) => string,
): PipelineRouter | undefined {
  const [entry] = stages
  const urls = stages.map((serving) => buildCallUrl(serving, nameUrl(serving)))
  if (entry === undefined || !isUnwiredChain(stages) || urls.includes(undefined)) return undefined
  const { measured } = entry.evidence
  const reached: Serving = {
    ...entry,
    host: name,
    evidence: { ...entry.evidence, measured: { ...measured, healthPath: routerReadyPath } },
  }
  return {
    entry: reached,
    objects: [
      {
        apiVersion: 'serving.kserve.io/v1alpha1',
        kind: 'InferenceGraph',
        metadata: {
          name,
          labels: buildLabels({ name }),
          annotations: {
            'serving.kserve.io/deploymentMode': deploymentMode,
            ...buildAnnotations(reached),
          },
        },
        spec: {
          nodes: {
            root: {
              routerType: 'Sequence',
              steps: stages.map(({ stage }, index) => ({
                name: stage!.name,
                serviceUrl: urls[index],
                data: index === 0 ? undefined : '$response',
                // A failed step ends the sequence, as a failed call does.
                dependency: 'Hard',
              })),
            },
          },
        },
      },
    ],
    notes: [
      'the InferenceGraph passes the answer of each stage to the next; its router adds a hop to each call, which the figures do not contain',
      describeMissing(
        'each stage receives the answer of the stage before as its request, and an answer of the Open Inference Protocol is no request',
        'Give the InferenceServices after the first a transformer, or servers that accept it.',
      ),
    ],
  }
}

/** Each stage calls the next exactly once, and no server makes the call itself. */
const isUnwiredChain = (stages: readonly Serving[]): boolean =>
  stages.every(({ stage }, index) => {
    const [call, ...others] = stage?.calls ?? []
    const next = stages[index + 1]
    if (next === undefined) return call === undefined
    return call?.serving === next.name && call.ratio === 1 && !call.isWired && others.length === 0
  })

/** Paths of inference calls by protocol, where requests need none of their own. */
const defaultPaths: Partial<Record<ProtocolName, (model: string) => string>> = {
  'oip-v2': (model) => `/v2/models/${encodeURIComponent(model)}/infer`,
}
/** Protocols whose requests the router can pass on: JSON over HTTP, one answer each. */
const routableProtocols: readonly ProtocolName[] = ['oip-v2', 'json']

/** Address of the inference call; undefined for protocols that the router does not speak. */
function buildCallUrl({ model, evidence }: Serving, url: string): string | undefined {
  const { protocol, path = defaultPaths[protocol]?.(model) } = evidence.measured
  return routableProtocols.includes(protocol) && path !== undefined ? `${url}${path}` : undefined
}
