/**
 * LeaderWorkerSet v1: one replica of a language model over several nodes, a pod on each, as the
 * project's own example of vLLM does it. The leader's pod starts a Ray cluster, waits for the
 * workers and serves.
 */
import { buildLabels } from '../availability.ts'
import { buildContainer } from '../container.ts'
import { resizeServing } from '../create-serving.ts'
import { buildPodStorage, resolveStorage } from '../model-storage.ts'
import { buildConfigMaps, buildPodTemplate, describePod } from '../pod.ts'
import { buildAnnotations } from '../provenance.ts'
import { buildClaimTemplates, selectServingGpus } from '../scheduling.ts'
import { maxNodeGpus } from '../servers/language.ts'
import type { Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'

/** Name of the Service: the controller's own headless service has the name of the set. */
const nameService = ({ name }: Pick<Serving, 'name'>): string => `${name}-leader`

export const target: SpecTarget = {
  title: 'LeaderWorkerSet',
  files: ['leaderworkerset.yaml'],
  writes:
    'LeaderWorkerSet v1: each replica spans several nodes of `--gpus-per-node` GPUs; and the Service of the leaders',
  needs: 'the LeaderWorkerSet controller',
  scaledBy: 'a fixed number of replicas',
  servers: ['vllm'],
  takes: ['gpusPerNode'],
  isNamespaced: true,
  host: nameService,
  render: renderLeaderWorkerSet,
}

function renderLeaderWorkerSet(
  serving: Serving,
  { gpusPerNode = maxNodeGpus }: SpecOptions,
): SpecContent {
  const split = splitOverNodes(serving, gpusPerNode)
  // Each node reads all the weights, and keeps its part.
  const node = resizeServing(serving, {
    ...serving.resources,
    gpus: split.perNode,
    cpuCores: serving.resources.cpuCores / split.nodes,
  })
  const { progressSeconds } = node.requirements
  // The leader starts before the last node is there, so its deadline includes the wait for nodes.
  const leader = {
    ...node,
    requirements: { ...node.requirements, startupSeconds: progressSeconds },
  }
  const gpu = selectServingGpus(node)
  const container = buildContainer(node)
  const storage = buildPodStorage(resolveStorage(node))
  // Pods of a group should be near each other: nothing spreads them over zones.
  const parts = { storage, isScraped: false, isReplicated: false }
  const labels = buildLabels(serving)
  const leaderLabels = { ...labels, role: 'leader' }
  const timeout = `--ray_init_timeout=${progressSeconds}`
  return {
    name: 'leaderworkerset.yaml',
    body: [
      ...buildConfigMaps(node, container),
      ...buildClaimTemplates(node, gpu),
      {
        apiVersion: 'leaderworkerset.x-k8s.io/v1',
        kind: 'LeaderWorkerSet',
        metadata: { name: serving.name, labels, annotations: buildAnnotations(serving) },
        spec: {
          replicas: serving.replicas,
          leaderWorkerTemplate: {
            size: split.nodes,
            restartPolicy: 'RecreateGroupOnPodRestart',
            leaderTemplate: buildPodTemplate(
              leader,
              {
                ...parts,
                container: {
                  ...container,
                  command: [
                    'sh',
                    '-c',
                    `bash ${script} leader --ray_cluster_size="$LWS_GROUP_SIZE" ${timeout} && exec "$@"`,
                    'sh',
                    ...(container.command ?? []),
                  ],
                  args: setParallelism(container.args ?? [], split),
                },
              },
              leaderLabels,
            ),
            workerTemplate: buildPodTemplate(
              node,
              {
                ...parts,
                container: {
                  ...container,
                  command: [
                    'sh',
                    '-c',
                    `exec bash ${script} worker --ray_address="$LWS_LEADER_ADDRESS" ${timeout}`,
                  ],
                  args: [],
                },
                receivesRequests: false,
              },
              { ...labels, role: 'worker' },
            ),
          },
        },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: nameService(serving), labels },
        spec: { selector: leaderLabels, ports: [{ name: 'http', port: 80, targetPort: 'http' }] },
      },
    ],
    notes: [...describePod(serving, { container, storage }, gpu), ...describeSplit(serving, split)],
  }
}

/** Script of the server's image that starts a Ray cluster. */
const script = '/vllm-workspace/examples/online_serving/multi-node-serving.sh'

/** A replica over several nodes with `perNode` GPUs each. */
interface Split {
  readonly nodes: number
  readonly perNode: number
}

/** @throws SpecError if one node is enough, or the GPUs do not divide */
function splitOverNodes({ resources: { gpus, gpuShare } }: Serving, perNode: number): Split {
  if (gpus <= perNode)
    throw new SpecError(
      `one replica has ${gpus} ${gpus === 1 ? 'GPU' : 'GPUs'}, and a node has ${perNode}: a LeaderWorkerSet spreads a replica over several nodes`,
      'choose --target kubernetes, or name the GPUs of a node, such as --gpus-per-node 4',
    )
  if (gpus % perNode !== 0 || gpuShare < 1)
    throw new SpecError(
      `${gpus} GPUs do not fill whole nodes of ${perNode} GPUs`,
      'give --gpus-per-node a divisor of the GPUs',
    )
  return { nodes: gpus / perNode, perNode }
}

/** Tensor parallel over the GPUs of a node, pipeline parallel over nodes. */
function setParallelism(args: readonly string[], { nodes, perNode }: Split): string[] {
  const others = args.filter((arg) => !/^--(tensor|pipeline)-parallel-size=/.test(arg))
  return [
    ...others,
    `--tensor-parallel-size=${perNode}`,
    `--pipeline-parallel-size=${nodes}`,
    '--distributed-executor-backend=ray',
  ]
}

const describeSplit = (
  { resources: { gpus }, configuration }: Serving,
  { nodes, perNode }: Split,
): string[] => [
  `NOT MODELLED, NOT MEASURED: the network between the ${nodes} nodes of a replica. The figures are from ${gpus} GPUs in one machine: check them with tune verify --url once it runs`,
  `tensor parallel over the ${perNode} GPUs of a node and pipeline parallel over ${nodes} nodes, as vLLM advises; ${'gpus' in configuration ? 'the tuned configuration' : 'every trial'} was tensor parallel over all ${gpus}`,
  'needs the controller of LeaderWorkerSet 0.3 or later; the number of replicas is fixed, and a pod that stops restarts its whole group',
  'every pod fetches all weights: --model-uri pvc://CLAIM/FOLDER of a volume that many nodes can read avoids that',
]
