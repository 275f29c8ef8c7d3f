// Python in a worker: loads Pyodide and tidelog from the files that the page names, then answers its questions.
//
// In:  {start: {name: {url, bytes}}}, {id, question}, {id, stop: true}
// Out: {loaded, all} in bytes, {ready: version}, {failed: why}; {id, reply}, {id, done: true}
//
// A question is answered piece by piece, with a look at the mail between two of them: so a search can be stopped,
// and a play is answered while a search goes on.

let ask = null;
const stopped = new Set();

self.onmessage = ({ data }) => {
  if (data.start) start(data.start).catch((error) => postMessage({ failed: String(error?.message ?? error) }));
  else if (data.stop) stopped.add(data.id);
  else answer(data.id, data.question);
};

async function start(files) {
  const parts = await load(files);
  const script = (name) => URL.createObjectURL(new Blob([parts[name]], { type: "text/javascript" }));
  importScripts(script("pyodide.js"), script("pyodide.asm.js"));
  // Pyodide asks for its files by address. It gets those that are here, and nothing from elsewhere.
  self.fetch = async (address) => {
    const name = String(address?.url ?? address).split("/").pop();
    if (!(name in parts)) throw new TypeError(`${name} is not here`);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return new Response(parts[name], { headers: { "Content-Type": type } });
  };
  const python = await loadPyodide({ indexURL: "file:///python/", stdout: () => {}, stderr: console.warn });
  python.FS.writeFile("/tidelog.zip", parts["tidelog.zip"]);
  ask = python.runPython("import sys; sys.path.insert(0, '/tidelog.zip'); from tidelog.web.play.questions import ask; ask");
  postMessage({ ready: python.runPython("sys.version.split()[0]") });
}

async function load(files) {
  const all = Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0);
  let loaded = 0;
  const one = async ([name, { url }]) => {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
    const counting = new TransformStream({
      transform(chunk, controller) {
        loaded += chunk.length;
        postMessage({ loaded, all });
        controller.enqueue(chunk);
      },
    });
    const inflated = response.body.pipeThrough(counting).pipeThrough(new DecompressionStream("deflate-raw"));
    return [name, new Uint8Array(await new Response(inflated).arrayBuffer())];
  };
  return Object.fromEntries(await Promise.all(Object.entries(files).map(one)));
}

async function answer(id, question) {
  const replies = ask(question);
  try {
    for (;;) {
      const { done, value } = replies.next();
      if (done) break;
      postMessage({ id, reply: value });
      await nextTurn();
      if (stopped.has(id)) break;
    }
    postMessage({ id, done: true });
  } catch (error) {
    postMessage({ id, reply: JSON.stringify({ error: `internal error: ${lastLine(error)}` }), done: true });
  } finally {
    stopped.delete(id);
    replies.destroy();
  }
}

// Python's traceback ends with what went wrong.
const lastLine = (error) => String(error?.message ?? error).trim().split("\n").pop();

// Messages that wait are taken first. (Timers are held back by browsers when a page is not looked at.)
const { port1, port2 } = new MessageChannel();
const waiting = [];
port1.onmessage = () => waiting.shift()();
const nextTurn = () => new Promise((resolve) => {
  waiting.push(resolve);
  port2.postMessage(null);
});
