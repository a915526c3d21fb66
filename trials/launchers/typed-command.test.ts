import { describe, expect, test } from 'vitest'
import { rewriteCommand } from '../servers/own-command.ts'
import { readTypedCommand, writeCommand } from './typed-command.ts'

const variables = { MODEL: 'bert', WORKERS: undefined }
/** How trials start what was typed; -b is --bind. */
const started = (typed: string | readonly string[]) => {
  const read = readTypedCommand(typed, variables)
  return writeCommand(read, rewriteCommand(read.words).command)
    .join(' ')
    .replace(' -b ', ' --bind ')
}

const gunicorn =
  'gunicorn --bind ${host}:${port} main:app --workers ${workers} --threads ${threads}'
const uvicorn = 'uvicorn main:app --port ${port} --host ${host} --workers ${workers}'

describe('a command as it is typed, and as trials start it', () => {
  test.each([
    ['exec gunicorn --bind 0.0.0.0:8000 main:app', gunicorn],
    ['gunicorn -b0.0.0.0:8000 main:app', gunicorn],
    ['gunicorn -b 0.0.0.0:8000 main:app', gunicorn],
    ['gunicorn -b :8000 main:app', gunicorn],
    ['gunicorn -b:8000 main:app', gunicorn],
    ['gunicorn -b=0.0.0.0:8000 main:app', gunicorn],
    ['gunicorn --bind=0.0.0.0:8000 main:app', gunicorn],
    ['gunicorn --bind="0.0.0.0:8000" main:app', gunicorn],
    ['gunicorn -b[::]:8000 main:app', gunicorn],
    ['gunicorn -b localhost:8000 main:app', gunicorn],
    ['gunicorn -b unix:/run/app.sock main:app', gunicorn],
    ['gunicorn -bunix:/run/app.sock main:app', gunicorn],
    ['gunicorn -b 0.0.0.0:8000 main:app -b 127.0.0.1:8001 --bind=:8002', gunicorn],
    ['gunicorn --bind :${PORT:-8000} main:app', gunicorn.replace('${host}', '')],
    ['gunicorn --bind ":$PORT" -b0.0.0.0:8000 main:app', gunicorn.replace('${host}', '')],
    ["sh -c 'exec gunicorn --bind 0.0.0.0:8000 main:app'", gunicorn],
    ['/bin/sh -c "gunicorn --bind 0.0.0.0:8000 main:app"', gunicorn],
    ['gunicorn \\\n  --bind 0.0.0.0:8000 \\\n  main:app', gunicorn],
    [
      'PORT=8000 gunicorn --bind 0.0.0.0:$PORT main:app',
      `env PORT=\${port} ${gunicorn.replace('${host}', '0.0.0.0')}`,
    ],
    [
      'A=1 B=2 C=3 D=4 E=5 F=6 gunicorn -b :8000 main:app',
      `env A=1 B=2 C=3 D=4 E=5 F=6 ${gunicorn}`,
    ],
    ['env A=b gunicorn -b :8000 main:app', `env A=b ${gunicorn}`],
    ['poetry run gunicorn -b :8000 main:app', `poetry run ${gunicorn}`],
    ['uv run --with x uvicorn main:app --port 8000', `uv run --with x ${uvicorn}`],
    ['python -m uvicorn main:app --port=8000', `python -m ${uvicorn}`],
    ['uvicorn main:app --port=8000', uvicorn],
    ['uvicorn main:app --port ${PORT:-8000} --uds /run/x.sock', uvicorn],
    ['cd app && uvicorn main:app --port 8000', uvicorn],
    ['bash -lc "gunicorn -b :8000 main:app"', gunicorn],
    [
      'python migrate.py && exec uvicorn main:app --port 8000',
      "sh -c python migrate.py && exec uvicorn main:app --port '${port}' --host '${host}' --workers '${workers}'",
    ],
    ['python app.py -p8000', 'python app.py -p ${port}'],
    ['python app.py -p 8000', 'python app.py -p ${port}'],
    ['python app.py --port $PORT', 'python app.py --port ${port}'],
    ['./server $HOST:$PORT', './server ${host}:${port}'],
    ['./server $MODEL --port 8000', './server bert --port ${port}'],
    ['./server ${WORKERS:-2} --port 8000', './server 2 --port ${port}'],
    ['N=3 ./server $N --port 8000', 'env N=3 ./server 3 --port ${port}'],
    ['./server ${workers} --port 8000', './server ${workers} --port ${port}'],
    ['./server --n ${N:-1} > log 2>&1', 'sh -c ./server --n $${N:-1} > log 2>&1'],
    ['./server -b :${PORT:-80} | tee log', 'sh -c ./server --bind :$${PORT:-80} | tee log'],
    ['./server --port ${port} | tee log', 'sh -c ./server --port ${port} | tee log'],
  ])('%s', (typed, command) => {
    expect(started(typed)).toBe(command)
  })

  test('words that a shell has split already', () => {
    expect(started(['exec', 'gunicorn', '-b', ':8000', 'main:app'])).toBe(gunicorn)
    expect(started(['sh', '-c', 'exec gunicorn -b :8000 main:app'])).toBe(gunicorn)
    expect(started(['/bin/sh', '-c', 'exit 3', '--port', '80'])).toBe(
      '/bin/sh -c exit 3 --port ${port}',
    )
  })

  test('the folder that it is started in', () => {
    expect(readTypedCommand('cd "my app" && gunicorn main:app', {})).toEqual({
      words: ['gunicorn', 'main:app'],
      cwd: 'my app',
    })
    expect(readTypedCommand("sh -c 'cd app && exec gunicorn main:app'", {}).cwd).toBe('app')
  })

  test.each([
    ['gunicorn main:app &', 'in the background'],
    ['gunicorn main:app & sleep 9', 'in the background'],
    ['gunicorn "main:app', 'unclosed'],
    ['gunicorn -b :8000 main:app | tee log', "needs a shell because of '|', and fixes port 8000"],
    ['gunicorn -b 0.0.0.0:8000 main:app > log 2>&1', 'because of a redirection'],
    ['./server --port $(cat port) --http-port=8000', 'because of a substitution'],
    ["sh -c 'set -e; gunicorn -b :8000 main:app | tee log'", 'port 8000'],
    ['gunicorn $UNSET', '$UNSET, which is not set'],
  ])('%s is refused', (typed, words) => {
    expect(() => readTypedCommand(typed, {})).toThrow(words)
  })
})
