// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The connection to kubectl stowage ui.

// listen calls the handler of each message, and lost(text) when the connection is lost; text is empty when it is found
// again.
export function listen(handlers, lost) {
  const source = new EventSource('events');
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
  source.addEventListener('open', () => lost(''));
  source.addEventListener('error', () => lost(source.readyState === EventSource.CLOSED
    ? 'kubectl stowage ui was started again: open the address that it printed. The map is as it was.'
    : 'kubectl stowage ui does not answer. If it has ended, run it again. The map is as it was.'));
}

// ask returns the answer of the server; errors have its message.
export async function ask(path, parameters, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== ''));
  let response;
  try {
    response = await fetch(`${path}?${query}`, { signal, headers: { Accept: 'application/json' } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('kubectl stowage ui does not answer.');
  }
  const body = await response.json().catch(() => ({ error: `The answer has status ${response.status}.` }));
  if (!response.ok) throw new Error(body.error);
  return body;
}
