import { expect, test } from 'vitest'
import { ProtocolError } from '../../profiler/profiler-errors.ts'
import { InfeasibleError, LaunchError } from '../types.ts'
import { createBadAnswerError, createLocalExitError, readLastLines } from './failure.ts'
import type { PredictorLog } from './predictor-log.ts'

const log = { path: '/log', tail: () => '' }

test('a configuration whose answers differ cannot serve; one without a good answer may be mended', () => {
  const differs = new ProtocolError(
    'oip-v2',
    'http://h answers, but ...',
    undefined,
    'answers-differ',
  )
  expect(createBadAnswerError(differs, log)).toEqual(
    new InfeasibleError('answers-differ', 'http://h answers, but ...', '/log'),
  )
  expect(createBadAnswerError(new ProtocolError('oip-v2', 'no'), log)).toBeInstanceOf(LaunchError)
})

test('what a known server lacks is answered with what installs it', () => {
  const missing = { kind: 'missing', evidence: "No module named 'sglang'" } as const
  const hintOf = (install?: string) =>
    createLocalExitError(missing, 'exit code 1', log as PredictorLog, 'experiment', install)
  expect(hintOf('pip install sglang')).toMatchObject({
    hint: 'pip install sglang',
    final: 'experiment',
  })
  expect(hintOf()).toMatchObject({
    hint: expect.stringContaining('install the dependencies of the predictor'),
  })
})

test.each([
  // llama.cpp on a GPU that its CUDA code was not built for.
  [
    `CUDA error: the provided PTX was compiled with an unsupported toolchain.
  current device: 0, in function ggml_cuda_op at ggml-cuda.cu:2461
/opt/app/libggml-base.so(+0x16a0b)[0x7f61a2d16a0b]
/opt/app/libggml-base.so(ggml_abort+0x15a)[0x7f61a2d16f3a]
/usr/bin/node[0x18a7b40]
/lib/x86_64-linux-gnu/libc.so.6(+0x9cb84)[0x7f619989cb84]
`,
    'CUDA error: the provided PTX was compiled with an unsupported toolchain. | current device: 0, in function ggml_cuda_op at ggml-cuda.cu:2461',
  ],
  [
    `/srv/serve.js:3
throw new Error('no weights')
^

Error: no weights
    at Object.<anonymous> (/srv/serve.js:3:7)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)

Node.js v20.20.2
`,
    "throw new Error('no weights') | ^ | Error: no weights",
  ],
  [
    'java.lang.IllegalStateException: no model\n\tat org.pytorch.serve.ModelServer.main(ModelServer.java:104)\n',
    'java.lang.IllegalStateException: no model',
  ],
  [
    'loading\n#0  0x00007f43 in raise () from /lib/libc.so.6\n#1 0x00007f44 in abort ()\n',
    'loading',
  ],
  // A stack and nothing else is better than nothing.
  ['/usr/bin/node[0x18a7b40]\n', '/usr/bin/node[0x18a7b40]'],
  [
    'Traceback (most recent call last):\n  File "serve.py", line 1, in <module>\nValueError: no weights\n',
    'Traceback (most recent call last): | File "serve.py", line 1, in <module> | ValueError: no weights',
  ],
])('what went wrong is told, not the frames of the stack below it: %#', (text, told) => {
  expect(
    readLastLines({
      path: '/log',
      tail: (lines = 20) => text.trimEnd().split('\n').slice(-lines).join('\n'),
    }),
  ).toBe(`; last lines: ${told}`)
})
