// What programs in the style of the CUDA samples call of helper_timer.h, where that is not there: the time of the host, in milliseconds.
#pragma once
#include <chrono>

class StopWatchInterface {
public:
    virtual ~StopWatchInterface() = default;
    virtual void start() {
        begun_ = std::chrono::steady_clock::now();
        running_ = true;
    }
    virtual void stop() {
        last_ = since();
        total_ += last_;
        ++sessions_;
        running_ = false;
    }
    virtual void reset() {
        total_ = last_ = 0;
        sessions_ = 0;
        begun_ = std::chrono::steady_clock::now();
    }
    virtual float getTime() { return total_ + (running_ ? since() : 0); }
    virtual float getAverageTime() { return sessions_ > 0 ? total_ / static_cast<float>(sessions_) : 0; }

private:
    float since() const { return std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begun_).count(); }
    std::chrono::steady_clock::time_point begun_;
    float total_ = 0, last_ = 0;
    int sessions_ = 0;
    bool running_ = false;
};

inline bool sdkCreateTimer(StopWatchInterface** timer) {
    *timer = new StopWatchInterface;
    return true;
}
inline bool sdkDeleteTimer(StopWatchInterface** timer) {
    delete *timer;
    *timer = nullptr;
    return true;
}
inline bool sdkStartTimer(StopWatchInterface** timer) { return *timer != nullptr && ((*timer)->start(), true); }
inline bool sdkStopTimer(StopWatchInterface** timer) { return *timer != nullptr && ((*timer)->stop(), true); }
inline bool sdkResetTimer(StopWatchInterface** timer) { return *timer != nullptr && ((*timer)->reset(), true); }
inline float sdkGetTimerValue(StopWatchInterface** timer) { return *timer != nullptr ? (*timer)->getTime() : -1; }
inline float sdkGetAverageTimerValue(StopWatchInterface** timer) { return *timer != nullptr ? (*timer)->getAverageTime() : -1; }
