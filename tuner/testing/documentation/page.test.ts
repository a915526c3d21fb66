import { expect, test } from 'vitest'
import { readSteps } from './page.ts'

const fence = '```'

test('a page is read into files, commands and their outputs, in its order', () => {
  const steps = readSteps(`# Title

<!-- file: app.py -->
${fence}python
print(1)
${fence}

## First

1. Do this:

   ${fence}sh
   tune init --env 'A=b c' \\
     gunicorn app:app        # any server
   tune spec > out.yaml
   tune ci                   # exits with 6
   ${fence}

   ${fence}text
   more expensive
   ${fence}

<!-- written: out.yaml -->
${fence}yml
kind: Deployment
${fence}
`)
  expect(steps).toEqual([
    { section: '', kind: 'file', name: 'app.py', text: 'print(1)\n' },
    {
      section: 'First',
      kind: 'command',
      command: {
        line: "tune init --env 'A=b c' gunicorn app:app",
        words: ['init', '--env', 'A=b c', 'gunicorn', 'app:app'],
      },
    },
    {
      section: 'First',
      kind: 'command',
      command: { line: 'tune spec > out.yaml', words: ['spec'], redirect: 'out.yaml' },
    },
    {
      section: 'First',
      kind: 'command',
      command: {
        line: 'tune ci',
        words: ['ci'],
        exitCode: 6,
        output: { text: 'more expensive\n', firstLine: 19 },
      },
    },
    { section: 'First', kind: 'written', name: 'out.yaml', text: 'kind: Deployment\n' },
  ])
})

test('the first YAML without a mark is experiment.yaml, there from the start', () => {
  const page = (mark: string) =>
    `${fence}sh\ntune config\n${fence}\n\n${mark}\n${fence}yaml\nmodel: bert\n${fence}\n`
  expect(readSteps(page('')).map((step) => step.kind)).toEqual(['file', 'command'])
  expect(readSteps(page('<!-- file: other.yaml -->'))).toMatchObject([
    { kind: 'command' },
    { kind: 'file', name: 'other.yaml' },
  ])
})

test('set-up is not run, what is no output is not compared, and other programs are refused', () => {
  const setUp = `${fence}sh\nnpm ci && npm run check\nnpm ci && npm start -- --model bert\n${fence}\n`
  expect(readSteps(`${setUp}\nWords.\n\n${fence}text\na diagram\n${fence}\n`)).toEqual([
    {
      section: '',
      kind: 'command',
      command: { line: 'npm ci && npm start -- --model bert', words: ['--model', 'bert'] },
    },
  ])
  expect(() => readSteps(`${fence}sh\nkubectl apply -f x\n${fence}\n`)).toThrow('kubectl')
})
