/** Manifests as people have them, by what was wrong with a patch of them. */
import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { bert, language, patchWith } from './patch-samples.contract.ts'
import { getValueAt, type YamlValue } from './yaml-values.ts'

/** A Deployment of one container; `fields` are its lines, from the left. */
const deployment = (
  fields: string,
  name = 'bert',
  container = 'server',
): string => `apiVersion: apps/v1
kind: Deployment
metadata: {name: ${name}}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: ${container}
${fields.replace(/^/gm, '        ').trimEnd()}
`
const containerIn = (text: string, document = 0, index = 0): YamlValue | undefined =>
  getValueAt(parseAllDocuments(text, { merge: true })[document]!.toJS() as YamlValue, [
    ...['spec', 'template', 'spec', 'containers'],
    index,
  ])
const ours = 'image: registry.example/tune-predictor:1'

describe('requests and limits of a GPU agree', () => {
  test.each([
    ['in requests alone', 'requests: {nvidia.com/gpu: "4"}', true],
    [
      'as a MIG slice in both',
      'requests: {nvidia.com/mig-1g.5gb: 1}\n  limits: {nvidia.com/mig-1g.5gb: 1}',
      false,
    ],
    ['as a shared replica', 'limits:\n    nvidia.com/gpu.shared: 1 # ours', false],
    [
      'of HAMi',
      'limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30}',
      false,
    ],
    ['of Aliyun', 'limits: {aliyun.com/gpu-mem: 3}', false],
    ['of another vendor', 'limits: {amd.com/gpu: 1}\n  requests: {amd.com/gpu: 1}', false],
  ])('%s', (_, resources, isRequested) => {
    const { text } = patchWith(bert(), deployment(`${ours}\nresources:\n  ${resources}`))
    const held = { cpu: '2', memory: '4Gi' }
    expect(getValueAt(containerIn(text), ['resources'])).toEqual({
      requests: { ...held, ...(isRequested && { 'nvidia.com/gpu': '1' }) },
      limits: { ...held, 'nvidia.com/gpu': expect.stringMatching(/^1$/) },
    })
  })

  test('a block that only had the old GPU stays a block, and a claim and an annotation are reported', () => {
    const text = deployment(
      'image: vllm/vllm-openai\nresources:\n  requests:\n    nvidia.com/mig-1g.5gb: 1\n  claims: [{name: gpu}]',
    ).replace(
      'template:\n',
      'template:\n    metadata: {annotations: {nvidia.com/use-gputype: T4}}\n',
    )
    const patched = patchWith(language(), text)
    expect(patched.text).toContain('          requests: {}\n')
    expect(patched.conflicts).toEqual([
      expect.stringMatching(/^resources\.claims gpu /),
      expect.stringMatching(/^annotation nvidia\.com\/use-gputype = T4 /),
    ])
  })
})

describe('the container is found', () => {
  const proxy = deployment(
    'image: envoyproxy/envoy:v1\nports: [{containerPort: 9901}]',
    'web',
    'envoy',
  )
  test.each([
    ['by its image', deployment(ours), /by its image/],
    ['by its port', deployment('image: x/y:1\nports: [{containerPort: 8000}]'), /by its port/],
    [
      'by its variables',
      deployment('image: x/y:1\nenv: [{name: BATCH_SIZE, value: "8"}]'),
      /variables/,
    ],
    ['as the only model server', deployment('image: x/y\ncommand: [tritonserver]'), /model server/],
    [
      'in a List',
      `apiVersion: v1\nkind: List\nitems:\n- ${deployment(ours).replace(/\n(?=.)/g, '\n  ')}`,
      /by its image/,
    ],
    [
      'in a CronJob',
      `kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: server, ${ours}}]}}}}}\n`,
      /by its image/,
    ],
    [
      'in a RayService',
      `kind: RayService\nspec: {rayClusterConfig: {workerGroupSpecs: [{template: {spec: {containers: [{name: w, ${ours}}]}}}]}}\n`,
      /by its image/,
    ],
  ])('%s, behind another', (_, manifest, reason) => {
    const patched = patchWith(bert(), `${proxy}---\n${manifest}`)
    expect(patched.container).toMatch(reason)
    expect(patched.text.startsWith(proxy)).toBe(true)
    expect(patched.changes.length).toBeGreaterThan(0)
  })

  test('and asked for where several may be meant', () => {
    const canary = `${deployment(ours)}---\n${deployment(ours, 'bert-canary')}`
    expect(() => patchWith(bert(), canary)).toThrow(
      /several containers .*: Deployment\/bert\/server, Deployment\/bert-canary\/server/,
    )
    expect(() => patchWith(bert(), canary)).toThrow(expect.objectContaining({ exitCode: 2 }))
    const { text, container } = patchWith(bert(), canary, 'bert-canary/server')
    expect(container).toBe('Deployment/bert-canary/server, by --container')
    expect(text.startsWith(deployment(ours))).toBe(true)
    expect(() => patchWith(bert(), `${proxy}---\n${proxy}`, 'envoy')).toThrow(
      /web\/envoy@\d+, .*@\d+/,
    )
    expect(() => patchWith(bert(), canary, 'no')).toThrow(/no container no: it has Deployment/)
  })

  test.each([
    'triton',
    'sklearn',
    'pytorch',
    'huggingface',
    'xgboost',
    'lightgbm',
    'onnx',
    'tensorflow',
    'pmml',
    'paddle',
    'model',
  ])('under %s of a predictor of KServe, beside a transformer', (field) => {
    const manifest = `kind: InferenceService\nmetadata: {name: m}\nspec:\n  predictor:\n    ${field}:\n      storageUri: gs://m\n      resources: {limits: {cpu: "8"}}\n  transformer:\n    containers: [{name: kserve-container, image: t}]\n`
    const { text, container } = patchWith(bert(), manifest)
    expect(container).toBe(`InferenceService/m/${field}, the only one`)
    expect(text).toContain(
      '      resources: {limits: {cpu: "2", memory: 4Gi, nvidia.com/gpu: "1"}, requests',
    )
  })

  test('by its image where Knative gives it no name', () => {
    const service = `kind: Service\nmetadata: {name: m}\nspec: {template: {spec: {containers: [{${ours}}]}}}\n`
    expect(patchWith(bert(), service).container).toBe('Service/m/tune-predictor, the only one')
  })

  test('and a foreign image is not called the built-in predictor', () => {
    const doubtsOf = (fields: string) =>
      patchWith(bert(), deployment(fields)).figures.mismatches.join()
    expect(doubtsOf('image: nginx:1\nargs: [predictor]')).toMatch(/deploys the image nginx:1 of/)
    expect(doubtsOf('image: nvcr.io/nvidia/tritonserver:25.01-py3')).toMatch(
      /deploys NVIDIA Triton$/,
    )
    expect(doubtsOf(ours)).toMatch(/deploys the built-in predictor/)
  })
})

describe('autoscalers', () => {
  const scaler = (kind: string, reference: string, bounds: string) =>
    `---\nkind: ${kind}\nmetadata: {name: s}\nspec: {${bounds}, scaleTargetRef: ${reference}}\n`
  const hpa = 'minReplicas: 2, maxReplicas: 3'
  const keda = 'minReplicaCount: 2, maxReplicaCount: 3'
  test.each([
    ['HorizontalPodAutoscaler', '{kind: Deployment, name: bert}', hpa, true],
    ['ScaledObject', '{name: bert}', keda, true],
    ['HorizontalPodAutoscaler', '{kind: StatefulSet, name: bert}', hpa, false],
    ['HorizontalPodAutoscaler', '{kind: Deployment, name: web}', hpa, false],
    ['ScaledObject', '{name: web}', keda, false],
  ])(
    '%s of %s: replicas are written where none scales them, bounds not from simulated figures',
    (kind, reference, bounds, isOurs) => {
      const manifest = deployment(ours) + scaler(kind, reference, bounds)
      const { text, unappliedValues } = patchWith(bert(), manifest)
      expect(text).toContain(`{${bounds}, scaleTargetRef`)
      expect(text.includes('  replicas: 2\n')).toBe(isOurs)
      expect(unappliedValues.length).toBe(isOurs ? 2 : 0)
      const asked = patchWith(bert({ minReplicas: 4, maxReplicas: 9 }), manifest).text
      expect(/: 4, max\w+: 9, scale/.test(asked)).toBe(isOurs)
    },
  )

  test('a Rollout that runs the pods of a Deployment has its replicas', () => {
    const manifest = `${deployment(ours)}---\nkind: Rollout\nmetadata: {name: r}\nspec: {replicas: 1, workloadRef: {kind: Deployment, name: bert}}\n`
    expect(patchWith(bert(), manifest).text).toMatch(
      /replicas: 2\n[\s\S]*\{replicas: 6, workloadRef/,
    )
  })
})

describe('arguments', () => {
  const vllm = 'image: vllm/vllm-openai:v0.11.0\n'
  test.each([
    ['two items', 'args: [--max-num-seqs, "256"]', 'args: [--max-num-seqs, "64"]'],
    ['one item with =', 'args:\n- --max_num_seqs=256', '- --max_num_seqs=64'],
    ['one item with a blank', "args: ['--max-num-seqs 256']", "args: ['--max-num-seqs 64']"],
    [
      'a shell',
      `command: ['sh', '-c', 'vllm serve "m" --max-num-seqs ''256''']`,
      "--max-num-seqs ''64'''",
    ],
    [
      'lines of a shell',
      'command: [bash, -c]\nargs:\n- |\n  # --max-num-seqs 9 was slow\n  vllm serve m \\\n    --max-num-seqs 256 \\\n    -x',
      '--max-num-seqs 64 \\\n',
    ],
    [
      'a folded text',
      'command: [bash, -c]\nargs:\n- >-\n  vllm serve m\n  --max-num-seqs 256',
      '          --max-num-seqs 64\n',
    ],
    [
      'a variable of the shell',
      'command: [sh, -c, "N=256; vllm serve m --max-num-seqs $N"]',
      '"N=64; vllm serve m --max-num-seqs $N"',
    ],
    [
      'a default of the shell',
      'command: [sh, -c, "vllm serve m --max-num-seqs ${N:-256}"]',
      'm --max-num-seqs 64"',
    ],
    [
      'passed as an environment variable',
      'args: [--max-num-seqs, $(N)]\nenv: [{name: N, value: "256"}]',
      '{name: N, value: "64"}',
    ],
    [
      'arguments in a variable',
      'args: [$(A)]\nenv: [{name: A, value: --max-num-seqs 256 -x}]',
      'value: --max-num-seqs 64 -x',
    ],
    [
      'a variable that the image reads',
      'env: [{name: VLLM_MAX_NUM_SEQS, value: "256"}]',
      'value: "64"',
    ],
    [
      'the text of a program',
      `command: [python3, -c, 'run(["vllm", "--max-num-seqs", "256"])']`,
      '"--max-num-seqs", "64"',
    ],
  ])('in %s', (_, fields, set) => {
    const { text, unappliedValues } = patchWith(language(), deployment(vllm + fields))
    expect(text).toContain(set)
    expect(text.includes('# --max-num-seqs 9')).toBe(fields.includes('seqs 9'))
    expect(unappliedValues).toEqual([
      '--max-num-batched-tokens=2048: the container has no such argument: add it',
    ])
  })

  test('switches, contrary values and GPUs that a model is split over', () => {
    const tuned = { enablePrefixCaching: 'off', enableChunkedPrefill: 'on', kvCacheDtype: 'auto' }
    const { text, unappliedValues } = patchWith(
      language(tuned),
      deployment(
        `${vllm}args: [--max-num-seqs=1, --max-num-batched-tokens=1, --enable-prefix-caching, --enable-chunked-prefill=False, --kv-cache-dtype, fp8, -tp, "4"]`,
      ),
    )
    expect(text).toContain(
      '[--max-num-seqs=64, --max-num-batched-tokens=2048, --no-enable-prefix-caching, --enable-chunked-prefill=True, --kv-cache-dtype, fp8, -tp, "1"]',
    )
    expect(unappliedValues).toEqual([
      'kvCacheDtype = auto: the container has --kv-cache-dtype fp8: remove it',
    ])
  })

  test('of the server that the manifest starts', () => {
    const sglang =
      'image: lmsysorg/sglang\ncommand: [python3, -m, sglang.launch_server, --max-running-requests, "128"]'
    expect(patchWith(language(), deployment(sglang)).text).toContain('--max-running-requests, "64"')
    const tgi =
      'image: ghcr.io/huggingface/text-generation-inference:3\nenv: [{name: NUM_SHARD, value: "2"}]'
    expect(patchWith(language({}, 4), deployment(tgi)).text).toContain(
      '{name: NUM_SHARD, value: "4"}',
    )
    const from = `${vllm}args: [--max-num-seqs, $(N)]\nenvFrom: [{configMapRef: {name: c}}]`
    expect(patchWith(language(), deployment(from)).unappliedValues).toContain(
      '--max-num-seqs=64: it is written as $(N), which the container does not set',
    )
  })
})

describe('what a patch does not list stays', () => {
  const two = (first: string, second: string) =>
    `kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: envoy\n    image: e\n${first}\n  - name: server\n    ${ours}\n${second}\n`
  test('an alias is written out, with the values that it had', () => {
    const { text } = patchWith(
      bert(),
      two('    resources: &r {limits: {example.com/x: "1", cpu: "1"}}', '    resources: *r'),
    )
    expect(text).toContain('    resources: &r {limits: {example.com/x: "1", cpu: "1"}}\n')
    expect(text).toContain('limits: { example.com/x: "1", cpu: "2", memory: 4Gi')
  })

  test('a merge key too', () => {
    const { text } = patchWith(
      bert(),
      two('    env: &e [{name: BATCH_SIZE, value: "1"}, {name: A, value: b}]', '    <<: {env: *e}'),
    )
    expect(text).toContain('env: &e [{name: BATCH_SIZE, value: "1"}')
    const [pod] = parseAllDocuments(text, { merge: true })
    expect(pod!.toJS().spec.containers[1].env).toEqual([
      { name: 'BATCH_SIZE', value: '32' },
      { name: 'A', value: 'b' },
    ])
  })

  test('an anchor that another container uses is refused, and names that stand twice', () => {
    const anchored = `kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: server, ${ours}, resources: &r {limits: {cpu: "1"}}}\n  - {name: envoy, image: e, resources: *r}\n`
    expect(() => patchWith(bert(), anchored)).toThrow(
      /resources is shared: \*r refers to it elsewhere/,
    )
    const twice = `kind: Pod\nspec:\n  containers:\n  - {name: a, image: b, image: c}\n`
    expect(() => patchWith(bert(), twice)).toThrow(/^f\.yaml:4: image appears twice/)
  })
})
