import { describe, expect, test } from 'vitest'
import { knownServers } from './known-servers.ts'
import { findServerByHeader, recogniseServer, rewriteCommand } from './own-command.ts'

const words = (text: string) => text.split(' ')

describe('who a command starts', () => {
  test.each([
    ['gunicorn app:app', 'gunicorn'],
    ['/opt/venv/bin/gunicorn -w 4 app:app', 'gunicorn'],
    ['python3 -m gunicorn app:app', 'gunicorn'],
    ['env OMP_NUM_THREADS=1 uvicorn app:app --port 8000', 'uvicorn'],
    ['python -m uvicorn app:app', 'uvicorn'],
    ['hypercorn app:app', 'hypercorn'],
    ['tritonserver --model-repository=/models', 'NVIDIA Triton'],
    ['tensorflow_model_server --model_base_path=/m/half', 'TensorFlow Serving'],
    ['vllm serve meta-llama/Llama-3.1-8B', 'vLLM'],
    ['python -m vllm.entrypoints.openai.api_server --model m', 'vLLM'],
    ['python3 -m sglang.launch_server --model-path m', 'SGLang'],
    ['trtllm-serve serve meta-llama/Llama-3.1-8B --tp_size 2', 'TensorRT-LLM'],
    ['mlserver start .', 'MLServer'],
    ['./llama-server -m model.gguf', 'llama-server'],
    ['transformers serve Qwen/Qwen3-0.6B', 'Transformers'],
    ['bentoml serve service:svc', 'BentoML'],
    ['serve run app:deployment', 'Ray Serve'],
    ['waitress-serve app:app', 'waitress'],
    ['uwsgi --http :9090 --module app', 'uWSGI'],
    ['bundle exec puma -p 9292', 'Puma'],
  ])('%s', (command, title) => {
    expect(recogniseServer(words(command))?.title).toBe(title)
  })

  test.each([
    'python3 app.py',
    'vllm bench',
    'transformers chat m',
    'node serve run.js',
    'python3 gunicorn.conf.py',
  ])('%s is nobody known', (command) => {
    expect(recogniseServer(words(command))).toBeUndefined()
  })

  test('a process that names itself, and the header of answers', () => {
    expect(recogniseServer(['gunicorn: master [app:app]'])?.title).toBe('gunicorn')
    expect(findServerByHeader('gunicorn/20.1.0')?.title).toBe('gunicorn')
    expect(findServerByHeader('nginx/1.22')).toBeUndefined()
    expect(findServerByHeader(undefined)).toBeUndefined()
  })
})

test('llama-server has as many threads as it has cores, whatever was typed', () => {
  for (const typed of ['llama-server -m m.gguf', 'llama-server -m m.gguf -t 8'])
    expect(rewriteCommand(typed.split(' ')).command.join(' ')).toMatch(
      /^llama-server -m m\.gguf.* (-t|--threads) \$\{cpuCores\}/,
    )
})

test('transformers serve: its model, which it lists nowhere, and the step of a batch where it batches', () => {
  const { command, parameters, model } = rewriteCommand(
    words('transformers serve ./tiny --continuous-batching --port 8000'),
  )
  expect(command).toEqual(
    words(
      'transformers serve ./tiny --continuous-batching --port ${port} --host ${host} --cb-max-batch-tokens ${cbMaxBatchTokens}',
    ),
  )
  expect([parameters.map(({ name }) => name), model]).toEqual([['cbMaxBatchTokens'], './tiny'])
  expect(rewriteCommand(words('transformers serve --device cpu'))).toMatchObject({ parameters: [] })
  expect(rewriteCommand(words('transformers serve --device cpu')).model).toBeUndefined()
})

test.each([
  ['python3 -m sglang.launch_server --model-path m', '--enable-metrics'],
  ['llama-server -m m.gguf', '--metrics'],
])('%s is told to count, once', (typed, counts) => {
  const { command } = rewriteCommand(typed.split(' '))
  expect(command.filter((word) => word === counts)).toHaveLength(1)
  expect(
    rewriteCommand([...typed.split(' '), counts]).command.filter((word) => word === counts),
  ).toHaveLength(1)
})

describe('a command for trials', () => {
  test('what it says of its port and of what is tuned becomes placeholders, wherever it stands', () => {
    const { command, parameters } = rewriteCommand(
      words('gunicorn -w 6 --bind=0.0.0.0:9000 app:app --threads 2'),
    )
    expect(command).toEqual(
      words('gunicorn -w ${workers} --bind ${host}:${port} app:app --threads ${threads}'),
    )
    expect(parameters).toMatchObject([
      { name: 'workers', values: '1..6', was: '6' },
      { name: 'threads', values: '1..8 x2', was: '2' },
    ])
  })

  test('what it does not say is appended, and what its user tunes already stays', () => {
    const { command, parameters } = rewriteCommand(
      words('uvicorn app:app --workers ${processes} --port ${port}'),
    )
    expect(command).toEqual(
      words('uvicorn app:app --workers ${processes} --port ${port} --host ${host}'),
    )
    expect(parameters).toEqual([])
    expect(rewriteCommand(['hypercorn', 'a:app']).command).toEqual(
      words('hypercorn a:app --bind ${host}:${port} --workers ${workers}'),
    )
    expect(rewriteCommand(words('gunicorn -w4 app:app')).parameters[0]).toMatchObject({ was: '4' })
  })

  test('an option that a server takes in another form is not said twice, and stands where it is read', () => {
    expect(
      rewriteCommand(words('waitress-serve --port=8080 --host 0.0.0.0 app:app')).command,
    ).toEqual(words('waitress-serve --threads ${threads} --listen ${host}:${port} app:app'))
    expect(rewriteCommand(words('puma -p 9292 -w 2 config.ru')).command).toEqual(
      words('puma -w ${workers} config.ru --bind tcp://${host}:${port} --threads ${threads}'),
    )
  })

  test('threads are proposed under the workers that have them', () => {
    const knobs = (command: string) =>
      rewriteCommand(words(command)).parameters.map(({ name }) => name)
    expect(knobs('gunicorn -k gthread app:app')).toEqual(['workers', 'threads'])
    expect(knobs('gunicorn --worker-class=gevent app:app')).toEqual(['workers'])
    expect(knobs('gunicorn -k uvicorn.workers.UvicornWorker app:app')).toEqual(['workers'])
  })

  test('a server that reads variables gets them', () => {
    expect(rewriteCommand(words('mlserver start .'))).toMatchObject({
      command: ['mlserver', 'start', '.'],
      env: { MLSERVER_HTTP_PORT: '${port}', MLSERVER_PARALLEL_WORKERS: '${parallelWorkers}' },
    })
  })

  test('Triton and TensorFlow Serving keep what their files do not say', () => {
    expect(
      rewriteCommand(
        words('tritonserver --model-repository /models --http-port=9000 --log-verbose=1'),
      ),
    ).toMatchObject({
      command: ['tritonserver', '--log-verbose=1'],
      models: '/models',
    })
    const served = words(
      'tensorflow_model_server --rest_api_port=8501 --model_name=half --model_base_path=/m/half_plus_two',
    )
    expect(rewriteCommand(served)).toMatchObject({
      command: ['tensorflow_model_server'],
      models: '/m/half_plus_two',
      model: 'half',
    })
  })

  test.each([
    ['python3 app.py --port 8080', 'python3 app.py --port ${port}'],
    ['python3 app.py --port=8080', 'python3 app.py --port=${port}'],
    ['node app.js -p 3000', 'node app.js -p ${port}'],
    ['PORT=3000 OMP_NUM_THREADS=1 node app.js', 'env PORT=${port} OMP_NUM_THREADS=1 node app.js'],
    ['env PORT=3000 node app.js', 'env PORT=${port} node app.js'],
    [
      'java App.java --metrics-port 9000 --server.port 8080',
      'java App.java --metrics-port 9000 --server.port ${port}',
    ],
    ['java -Dserver.port=8080 -jar app.jar', 'java -Dserver.port=${port} -jar app.jar'],
    ['./server 0.0.0.0:8080', './server ${host}:${port}'],
    ['./server --listen :8080', './server --listen ${host}:${port}'],
  ])('nobody known: the port of %s', (given, command) => {
    expect(rewriteCommand(words(given))).toMatchObject({
      command: words(command),
      env: {},
      parameters: [],
      setsPort: true,
    })
  })

  test('a command that names no port may read the variable', () => {
    expect(rewriteCommand(words('python3 app.py 12'))).toMatchObject({
      command: words('python3 app.py 12'),
      env: { PORT: '${port}' },
      setsPort: false,
    })
  })
})

test('each server of the table is found again by each of its programs', () => {
  for (const { title, programs, ...rest } of knownServers)
    for (const program of programs) {
      const command = program.includes('.')
        ? ['python3', '-m', program]
        : [program, ...('subcommand' in rest ? [rest.subcommand] : [])]
      expect(recogniseServer(command)?.title).toBe(title)
    }
})
