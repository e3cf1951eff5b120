// A browser starts no worker from a file: read from a folder, the search runs its script in a hidden frame of the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // messages that came before the script ran
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      (document.body || document.documentElement).append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = data => setTimeout(() => this.tell(this, data, this.onmessage));
      const script = inner.document.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach(data => this.postMessage(data));
      };
      inner.document.body.append(script);
    }
    tell(whom, data, handler) {
      const event = new MessageEvent("message", { data });
      whom.dispatchEvent(event);
      if (handler) handler.call(whom, event);
    }
    postMessage(data) {
      if (this.waiting) return void this.waiting.push(data);
      const inner = this.frame.contentWindow;
      setTimeout(() => this.tell(inner, data, inner.onmessage));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
